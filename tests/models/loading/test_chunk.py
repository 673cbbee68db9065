"""Batches of chunks: padding, masks, and positions that count."""

import numpy as np
import torch

from isoscope.models.loading.chunk import Chunk, pad_right, plain_positions, stack_chunks

CPU = torch.device("cpu")


def test_rows_of_words_are_filled_up_as_wholes():
    """Each row is a sequence of words, and each word a row of two character ids."""
    ids, mask = pad_right([np.array([[5, 6]]), np.array([[1, 2], [3, 4]])], 9, CPU)
    assert ids.tolist() == [[[5, 6], [9, 9]], [[1, 2], [3, 4]]]
    assert mask.tolist() == [[1, 0], [1, 1]]


def test_a_chunk_costs_the_length_to_which_the_model_pads_it():
    assert Chunk(np.zeros(7), 7).batch_cost == 7
    assert Chunk(np.zeros(7), 7, padded_size=1500).batch_cost == 1500
    assert Chunk(np.zeros(7), 7, padded_size=3).batch_cost == 7


def test_without_special_tokens_no_position_is_special():
    assert Chunk(np.zeros(3), 3).special_mask.tolist() == [False] * 3
    assert Chunk(np.zeros(3), 3, special=np.array([True, False, True])).special_mask.tolist() == [True, False, True]


def test_chunks_of_one_shape_are_stacked_in_their_order_and_cast():
    stacked = stack_chunks([Chunk(np.float32([1, 2]), 1), Chunk(np.float32([3, 4]), 1)], CPU, torch.float64)
    assert stacked.dtype == torch.float64
    assert stacked.tolist() == [[1, 2], [3, 4]]


def test_every_position_of_plain_chunks_counts_from_its_start():
    first, second = plain_positions([Chunk(np.zeros(4), 4), Chunk(np.zeros(4), 4, start=4)])("encoder", 3)
    assert (first.start, second.start) == (0, 4)
    assert first.special.tolist() == second.special.tolist() == [False] * 3
    assert first.ordered
    assert first.ids is None
