"""Repair a matrix of embeddings and see what each repair does to its geometry.

    python examples/repair_embeddings.py [embeddings.npy]

Without a file it makes embeddings that are ill in the way a Transformer's are: a common drift, two massive dimensions, and
variances that fall off quickly around sixteen topics.
"""

import sys

import numpy as np

from isoscope import metrics, repair

SHOWN = ("mean_cosine", "drift_ratio", "top_share", "effective_rank", "isoscore")


def ill_embeddings(n: int = 2000, d: int = 64) -> tuple[np.ndarray, np.ndarray]:
    """Embeddings and the topic of each."""
    rng = np.random.default_rng(0)
    topic = rng.integers(16, size=n)
    X = (0.7 * rng.normal(size=(16, d))[topic] + rng.normal(size=(n, d))) * np.linspace(1, 0.1, d)
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
    X = X @ turn + 0.5  # drift
    X[:, [7, 40]] = X[:, [7, 40]] * 30 + 60  # massive dimensions
    return X.astype(np.float32), topic


def same_topic(X: np.ndarray, topic: np.ndarray) -> float:
    """How often the nearest neighbour by cosine is of the same topic."""
    u = X / np.linalg.norm(X, axis=1, keepdims=True)
    cosine = u @ u.T
    np.fill_diagonal(cosine, -1)
    return float((topic[cosine.argmax(1)] == topic).mean())


def main() -> None:
    X, topic = (np.load(sys.argv[1]), None) if len(sys.argv) > 1 else ill_embeddings()
    transforms = [None, repair.Centre(), repair.Standardise(), repair.AllButTheTop(k=1), repair.AllButTheTop(k=2)]
    transforms += [repair.Whiten("zca"), repair.Whiten("pca", n_components=16)]
    columns = [*SHOWN, *(["same_topic"] if topic is not None else [])]
    print(f"{'':28}" + "".join(f"{name:>15}" for name in columns))
    for transform in transforms:
        Y = X if transform is None else transform.fit_transform(X)
        row = [float(getattr(metrics, name)(Y, sample=0)) for name in SHOWN]
        if topic is not None:
            row.append(same_topic(Y, topic))
        print(f"{transform or 'as it is'!s:28}" + "".join(f"{round(value, 3) + 0.0:15.3f}" for value in row))


if __name__ == "__main__":
    main()
