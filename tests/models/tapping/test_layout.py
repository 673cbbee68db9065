"""Which position of a batch is which token of which item."""

import numpy as np
import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.core.site import Site
from isoscope.models.loading.chunk import Positions
from isoscope.models.tapping.layout import BatchLayout, Rows, Slicer

ATTENTION = Site("encoder", "attention", 1)


def layout_of(*, split=(), lengths=None, starts=None, mask=None, special=()):
    """The layout of a batch whose rows are items 0, 1, …, with so many positions each, all of them by default."""

    def positions(stack, b, t):
        counts = lengths or [t] * b
        return [Positions(np.isin(np.arange(n), special), start=start) for n, start in zip(counts, starts or [0] * b, strict=True)]

    def rows(b):
        return Rows.of(list(range(b)), list(range(b)), np.ones(b, dtype=bool))

    return BatchLayout(Slicer(split, 16), 0, rows, positions, mask)


def test_padding_special_first_and_body_tokens_have_codes_of_their_own():
    layout = layout_of(lengths=[4, 2], starts=[0, 7], special=[1]).of_states("encoder", 2, 5)
    assert layout.codes.tolist() == [[1, 0, 2, 2, -1], [1, 0, -1, -1, -1]]
    assert layout.index.tolist() == [[0, 1, 2, 3, 0], [7, 8, 0, 0, 0]]
    assert [(code, positions.tolist()) for code, _, positions, _ in layout.slices()] == [(0, [1, 6]), (1, [0, 5]), (2, [2, 3])]


def test_hashes_depend_on_item_and_index_and_not_on_the_batch():
    together = layout_of(lengths=[3, 2], starts=[4, 0]).of_states("encoder", 2, 3)
    alone = layout_of(lengths=[1], starts=[5]).of_states("encoder", 1, 1)
    assert together.hashes[0, 1] == alone.hashes[0, 0]
    assert len(np.unique(together.hashes[together.codes >= 0])) == 5


def test_a_layout_is_built_once_for_all_sites_of_one_shape():
    layouts = layout_of()
    assert layouts.of_states("encoder", 2, 3) is layouts.of_states("encoder", 2, 3)
    assert layouts.of_states("encoder", 2, 3) is not layouts.of_states("encoder", 2, 4)


def test_a_mask_moves_positions_to_where_they_lie():
    mask = np.array([[False, True, True], [True, False, False]])
    layout = layout_of(lengths=[2, 1], mask=mask).of_states("backbone", 2, 3)
    front = layout_of(lengths=[2, 1]).of_states("backbone", 2, 3)
    assert layout.codes.tolist() == [[-1, 1, 2], [1, -1, -1]]
    assert layout.index.tolist() == [[0, 0, 1], [0, 0, 0]]
    assert layout.hashes[0, 1:].tolist() == front.hashes[0, :2].tolist()


def test_sinks_are_positions_of_the_body_with_enormous_norms():
    """Above ten times the median of their own row; neither a first token nor padding is one."""
    layout = layout_of(split=("sink",), lengths=[4, 3]).of_states("encoder", 2, 4)
    norms = np.array([[90.0, 1.0, 90.0, 2.0], [90.0, 1.0, 1.0, 900.0]])
    assert layout.with_sinks(norms).codes.tolist() == [[1, 2, 2, 2], [1, 2, 2, -1]]  # the median of the first row is 46
    norms[0, 0] = 1.0
    assert layout.with_sinks(norms).codes.tolist() == [[1, 2, 3, 2], [1, 2, 2, -1]]


def test_a_whole_map_is_one_position_in_the_only_slice_of_its_site():
    layout = layout_of(split=("sink",)).of_maps(3)
    assert layout.codes.tolist() == [[0], [0], [0]]
    assert layout.sink_codes is None
    assert layout.item.tolist() == [0, 1, 2]


def test_chunks_follow_each_other():
    layouts = layout_of(starts=[0, 10])
    chunks = [layouts.of_attention(ATTENTION, ["encoder"], (2, 10), (2, t), (2, t))[0] for t in (4, 4, 2)]
    assert chunks[1].index.tolist() == [[4, 5, 6, 7], [14, 15, 16, 17]]
    assert chunks[2].index.tolist() == [[8, 9], [18, 19]]
    assert [chunk.last.tolist() for chunk in chunks] == [[False, False], [False, False], [True, True]]
    with pytest.raises(IsoscopeError, match="does not fit"):
        layouts.of_attention(ATTENTION, ["encoder"], (2, 10), (2, 11), (2, 11))


def test_windows_are_rows_of_the_body():
    layouts = layout_of()
    windows, keys = layouts.of_attention(ATTENTION, ["encoder"], (2, 12), (6, 4), (6, 4))
    assert windows is keys
    assert windows.unit.tolist() == [0, 0, 0, 1, 1, 1]
    assert windows.last.tolist() == [False, False, True] * 2
    assert windows.index[:3].ravel().tolist() == list(range(12))
    assert (windows.codes == 2).all()
    with pytest.raises(IsoscopeError, match="hold padding"):
        layouts.of_attention(ATTENTION, ["encoder"], (2, 10), (6, 4), (6, 4))


def test_cross_attention_has_the_keys_of_the_stack_before():
    layouts = layout_of()
    queries, keys = layouts.of_attention(Site("decoder", "cross_attention", 1), ["encoder", "decoder"], (2, 3), (2, 3), (2, 7))
    assert queries is layouts.of_states("decoder", 2, 3)
    assert keys is layouts.of_states("encoder", 2, 7)
