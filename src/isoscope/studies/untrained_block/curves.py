"""The names under which the experiment on an untrained block keeps its curves and numbers, and what each means."""

from __future__ import annotations

KIND = "block"
"""The kind and the stack of every row and point of the experiment. `layer` 0 is what enters the first block, L what leaves the L-th."""

CURVES: dict[str, str] = {
    "block_cosine": "The mean cosine over all pairs, of what enters (layer 0) and of what leaves block L (layer L), by the bias norm.",
    "block_between_cosine": "The same over pairs from different sequences.",
    "block_mean_norm": "The mean of the norms, by the norm of the bias.",
    "block_drift_norm": "The norm of the mean, by the norm of the bias.",
    "block_query_cosine": "The mean cosine of queries over all pairs, head by head in its own dimensions, averaged over heads.",
    "block_key_cosine": "The mean cosine of keys over all pairs, head by head in its own dimensions, averaged over heads.",
    "block_query_norm": "The mean norm of a head's queries, averaged over heads.",
    "block_key_norm": "The mean norm of a head's keys, averaged over heads.",
    "block_query_cosine_whole": "The mean cosine of queries with all heads side by side as one vector.",
    "block_key_cosine_whole": "The mean cosine of keys with all heads side by side as one vector.",
    "block_score_mean": "The mean of the scores before softmax, over all heads.",
    "block_score_offset": "The size of a head's mean score, averaged over heads: how far scores lie from zero whatever the sign.",
    "block_score_sd": "The standard deviation of all scores, heads together.",
    "block_score_row_sd": "The standard deviation of the scores within a row, averaged over rows: only this sharpens attention.",
    "block_entropy": "The entropy of a row of attention, averaged over rows.",
    "block_entropy_gap": "The logarithm of a row's number of open positions minus its entropy, averaged over rows; 0 is uniform attention.",
    "block_half_row_variance": "Half of the variance of the scores within a row, averaged: what the gap is where the spread is small.",
    "block_row_max": "The largest probability of a row, averaged over rows, heads and sequences.",
    "block_row_median": "The median probability of a row, averaged over the rows looked at, heads and sequences.",
    "block_row_min": "The smallest probability of a row, averaged over rows, heads and sequences.",
    "block_sequence_max": "The largest probability of a whole sequence, all rows and heads, averaged over sequences.",
    "block_sequence_min": "The smallest probability of a whole sequence, all rows and heads, averaged over sequences.",
}
"""x is the norm of the bias, y the value, `seed` the draw; `weight` is not used."""

HISTOGRAM = "block_score_histogram"
TRAINED = "trained_norm"
OTHERS: dict[str, str] = {
    HISTOGRAM: "A histogram of the scores before softmax: x the middle of a bin, y the density, weight the norm of the bias.",
}

NUMBERS: dict[str, str] = {
    "norm_fixed_point": "The norm of the bias at which output and input are equally long by the mean of norms; interval over draws.",
    "drift_fixed_point": "The norm of the bias at which output and input are equally long by the norm of the mean; interval over draws.",
    "output_norm_change": "How much the mean norm of the output changes over the grid, as a part of its mean; 0 where a norm sets it.",
    "least_cosine_gain": "The least of output minus input cosine over the grid: above 0, the output is always the more anisotropic.",
    "query_cosine_unbiased": "The mean cosine of queries at the smallest bias of the grid, averaged over heads.",
    "key_cosine_unbiased": "The mean cosine of keys at the smallest bias of the grid, averaged over heads.",
    TRAINED: "The mean norm of a layer of a trained model, as `mean_norm` gives it, to hold the fixed points against.",
}
"""Rows of the table: the mean over draws, with Student's 95 % interval of that mean (of a trained model, over its documents)."""

MEANINGS: dict[str, str] = CURVES | OTHERS | NUMBERS
