"""NonMaxSuppression: boxes in order of score, without those that overlap a better one too much."""

from __future__ import annotations

import numpy as np

from jitopt.errors import ModelError
from jitopt.ir.dims import Shape
from jitopt.ir.graph import Node
from jitopt.ops.cases import floats, sample, scalar, vector
from jitopt.ops.contents import fresh
from jitopt.ops.operator import Array, Attribute, Attrs, Kind, Param
from jitopt.ops.rules import differ, require, shape_of, show
from jitopt.ops.signature import declare, dtypes

INT64, FLOAT32 = dtypes("int64"), dtypes("float32")


def _suppression_shape(node: Node, attrs: Attrs) -> list[Shape | None]:
    boxes, scores = shape_of(node, 0), shape_of(node, 1)
    fits = len(boxes) == len(scores) == 3 and not differ(boxes[2], 4) and not differ(boxes[0], scores[0])
    require(fits and not differ(boxes[1], scores[2]), f"boxes {show(boxes)} and scores {show(scores)} do not fit")
    return [(fresh(node, 0), 3)]


def _non_max_suppression(
    attrs: Attrs, boxes: Array, scores: Array, most: Array | None = None, iou: Array | None = None,
    least: Array | None = None,
) -> Array:  # fmt: skip
    limit = 0 if most is None else int(np.ravel(most)[0])
    overlap = 0.0 if iou is None else float(np.ravel(iou)[0])
    if not 0.0 <= overlap <= 1.0:
        raise ModelError(f"iou_threshold {overlap} lies outside [0, 1]")
    corners = _corners(boxes, bool(attrs.center_point_box))
    chosen: list[tuple[int, int, int]] = []
    for batch, category in np.ndindex(scores.shape[:2]):
        score = scores[batch, category]
        order = np.argsort(-score, kind="stable")
        if least is not None:
            order = order[score[order] > np.ravel(least)[0]]
        kept = _suppressed(corners[batch], order, limit, overlap)
        chosen += [(batch, category, int(i)) for i in kept]
    return np.array(chosen, np.int64).reshape(-1, 3)


def _corners(boxes: Array, centered: bool) -> Array:
    """Boxes as (low, low, high, high), whichever corner comes first."""
    a, b = boxes[..., :2], boxes[..., 2:]
    if centered:
        a, b = a - b / 2, a + b / 2
    return np.concatenate([np.minimum(a, b), np.maximum(a, b)], axis=-1)


def _suppressed(corners: Array, order: Array, limit: int, overlap: float) -> list[int]:
    """Greedy choice along `order`: a box goes when it overlaps a chosen one by more than `overlap`."""
    area = np.prod(corners[:, 2:] - corners[:, :2], axis=1)
    kept: list[int] = []
    while len(order) and len(kept) < limit:
        best, order = int(order[0]), order[1:]
        kept.append(best)
        low = np.maximum(corners[best, :2], corners[order, :2])
        high = np.minimum(corners[best, 2:], corners[order, 2:])
        common = np.prod(np.maximum(high - low, 0), axis=1)
        union = area[best] + area[order] - common
        iou = np.divide(common, union, out=np.zeros_like(common), where=union > 0)
        order = order[iou <= overlap]
    return kept


def _boxes_and_scores() -> tuple[Array, Array]:
    corner, size = floats(2, 40, 2, low=0.0, high=4.0), floats(2, 40, 2, low=0.5, high=2.0, seed=1)
    return np.concatenate([corner, corner + size], axis=-1), floats(2, 3, 40, low=0.0, high=1.0)


declare(
    "NonMaxSuppression", Kind.OPAQUE,
    [
        Param("boxes", FLOAT32, "F"), Param("scores", FLOAT32, "F"),
        Param("max_output_boxes_per_class", INT64, "I", optional=True),
        Param("iou_threshold", FLOAT32, "F", optional=True), Param("score_threshold", FLOAT32, "F", optional=True),
    ],
    [Param("selected_indices", INT64, "I")], _suppression_shape, _non_max_suppression, since=(10, 11),
    attributes={"center_point_box": Attribute("int", 0, choices=(0, 1))},
    samples=lambda: [
        sample(*_boxes_and_scores(), vector(5), vector(0.4, dtype="float32"), vector(0.3, dtype="float32")),
        sample(*_boxes_and_scores(), scalar(50, "int64"), scalar(0.2)),
        sample(*_boxes_and_scores(), scalar(7, "int64"), scalar(0.5), center_point_box=1),
        sample(*_boxes_and_scores(), scalar(7, "int64")),
        sample(*_boxes_and_scores()),
    ],
)  # fmt: skip
