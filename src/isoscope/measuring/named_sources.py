"""The sources that `--data` names, and which of them each model reads."""

from __future__ import annotations

from collections.abc import Iterable

from isoscope.core.errors import IsoscopeError
from isoscope.core.model_groups import UNTRAINED
from isoscope.core.source import Source
from isoscope.measuring.options import Options
from isoscope.models.naming.model_name import ModelReference
from isoscope.sources import open_source


class Sources:
    """The sources named on the command line, each opened once.

    Two objects are equal if they name the same sources. A copy in another process opens them anew there: only the names are sent.
    """

    def __init__(self, specs: Iterable[str], column: str | None, models: Iterable[str]) -> None:
        self.specs, self.column, self.models = tuple(specs), column, tuple(models)
        pairs = [(model, spec) for model, equals, spec in (spec.partition("=") for spec in self.specs) if equals and model in self.models]
        self._by_model = dict(pairs)
        shared = [spec for spec in self.specs if spec.partition("=")[0] not in self._by_model] or ["embedded"]
        # The embedded source serves every modality, so it comes last: it must not hide a source that the user named.
        self._shared = sorted(shared, key=lambda spec: spec == "embedded")
        self._open_sources: dict[tuple[str, str], Source] = {}
        self._modalities: dict[tuple[bytes, bool | tuple[str, ...]], str] = {}

    def _names(self) -> tuple[tuple[str, ...], str | None, tuple[str, ...]]:
        return self.specs, self.column, self.models

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sources) and self._names() == other._names()

    def __hash__(self) -> int:
        return hash(self._names())

    def __reduce__(self) -> tuple[type[Sources], tuple[tuple[str, ...], str | None, tuple[str, ...]]]:
        return Sources, self._names()

    def for_model(self, reference: ModelReference, options: Options) -> Source:
        """The source that a model reads: the one named for it, or the first of its modality."""
        return self.of_modality(reference.name, self._modality_of(reference, options))

    def _modality_of(self, reference: ModelReference, options: Options) -> str:
        """The modality that a model reads. The checkpoints of a training share one configuration, so it is worked out once for all."""
        from isoscope.models.loading.load import family_for  # imports torch, which a sweep that is finished does not need

        config = reference.folder / "config.json"
        if reference.gguf or reference.whisper or not config.is_file():
            return family_for(reference, trust_remote_code=options.trust_remote_code).source
        key = config.read_bytes(), options.trust_remote_code
        if key not in self._modalities:
            self._modalities[key] = family_for(reference, trust_remote_code=options.trust_remote_code).source
        return self._modalities[key]

    def of_modality(self, model: str, modality: str) -> Source:
        """The source of this modality that a model of this name reads."""
        name = model.removeprefix(UNTRAINED)
        candidates = [self._by_model[name]] if name in self._by_model else self._shared
        problem: IsoscopeError | None = None
        for spec in candidates:
            try:
                source = self._open(spec, modality)
            except IsoscopeError as error:
                problem = problem or error
                continue
            if source.modality == modality:
                return source
        if problem is not None:
            raise problem
        raise IsoscopeError(
            f"{model} reads {modality}, and {', '.join(candidates)} {'holds' if len(candidates) == 1 else 'hold'} none; add --data with "
            f"{modality}, or --data embedded."
        )

    def _open(self, spec: str, modality: str) -> Source:
        if (spec, modality) not in self._open_sources:
            self._open_sources[spec, modality] = open_source(spec, self.column, modality)
        return self._open_sources[spec, modality]
