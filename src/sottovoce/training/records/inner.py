"""Inner products of two uses of one parameter, group by group.

A tied weight, or a layer called twice, has the gradient g = u + v, and

    ||g||^2 = ||u||^2 + ||v||^2 + 2 <u, v>:

so each pair of uses needs the cross term. Two uses of one layer may be stored in different forms (a
short input as factors of weight and bias together, a long one materialised, each parameter
separately), so the term is computed per parameter.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from sottovoce.training.records.grouping import Bucket, inner_products, norm_dtype
from sottovoce.training.records.records import (
    Instantiated,
    Lookup,
    OuterProduct,
    Record,
    as_rows,
    form,
    formed_is_smaller,
)


def shared_product(
    u_parameters: Sequence[object], u: Record, v_parameters: Sequence[object], v: Record
) -> Tensor | None:
    """<u_g, v_g> over the parameters common to both uses, [count]; None if there are none."""
    if list(map(id, u_parameters)) == list(map(id, v_parameters)):
        return inner_product(u, v)
    products = [
        _product_of_parts(u, i, v, j)
        for i, mine in enumerate(u_parameters)
        for j, other in enumerate(v_parameters)
        if mine is other
    ]
    return sum(products[1:], products[0]) if products else None


def _product_of_parts(u: Record, i: int, v: Record, j: int) -> Tensor:
    """The first part of a record is its weight, the others are biases."""
    if i == j == 0:
        return inner_product(_weight_alone(u), _weight_alone(v))
    return (as_rows(_part(u, i)) * as_rows(_part(v, j))).sum(1)


def _weight_alone(record: Record) -> Record:
    return replace(record, biases=0) if isinstance(record, OuterProduct) else record


def _part(record: Record, place: int) -> Tensor:
    if place == 0:
        return record.instantiate()
    assert isinstance(record, OuterProduct)  # no other record holds a bias with its weight
    return record.bias_gradients()


def inner_product(u: Record, v: Record) -> Tensor:
    """<u_g, v_g> for every group g, [count]."""
    match u, v:
        case Lookup(), Lookup():
            return _common_rows(u, v)
        case Lookup(), OuterProduct():
            return _table_and_matrix(u, v)
        case OuterProduct(), Lookup():
            return _table_and_matrix(v, u)
        case Lookup(), Instantiated():
            return _table_and_gradients(u, v)
        case Instantiated(), Lookup():
            return _table_and_gradients(v, u)
        case OuterProduct(), OuterProduct():
            return _two_matrices(u, v)
        case _:
            return (as_rows(u.instantiate()) * as_rows(v.instantiate())).sum(1)


def _common_rows(u: Lookup, v: Lookup) -> Tensor:
    products = u.rows.new_zeros(u.count)
    if len(u.ids) == 0:
        return products
    places = torch.searchsorted(u.keys, v.keys).clamp_(max=len(u.ids) - 1)
    common = u.keys[places] == v.keys
    dots = (u.rows[places[common]] * v.rows[common]).sum(1)
    return products.index_add_(0, v.groups[common], dots)


def _table_and_gradients(u: Lookup, v: Instantiated) -> Tensor:
    dots = (u.rows * v.gradients[u.groups, u.ids]).sum(1)
    return dots.new_zeros(u.count).index_add_(0, u.groups, dots)


def _table_and_matrix(u: Lookup, v: OuterProduct) -> Tensor:
    """sum over entries k of u and rows r of v in one group: b_r[ids_k] <rows_k, a_r>."""
    products = []
    for bucket in v.grouping.buckets:
        rows, ids = _by_group(u, bucket)
        a, b = bucket.take(v.inputs), bucket.take(v.gradients)
        looked_up = b.gather(2, ids.unsqueeze(1).expand(-1, b.shape[1], -1))
        products.append((looked_up * inner_products(a, rows)).sum((1, 2)))
    return v.grouping.join(products, u.rows)


def _by_group(u: Lookup, bucket: Bucket) -> tuple[Tensor, Tensor]:
    """The entries of each group of a bucket, padded with zero rows."""
    wanted = torch.arange(u.count, device=u.ids.device) if bucket.groups is None else bucket.groups
    place = torch.full((u.count,), -1, device=u.ids.device)
    place[wanted] = torch.arange(len(wanted), device=u.ids.device)
    inside = place[u.groups] >= 0
    groups = place[u.groups[inside]]
    column = torch.arange(len(groups), device=groups.device) - torch.searchsorted(groups, groups)
    width = int(column.max()) + 1 if len(column) else 0
    rows = u.rows.new_zeros(len(wanted), width, u.rows.shape[1])
    ids = u.ids.new_zeros(len(wanted), width)
    rows[groups, column] = u.rows[inside]
    ids[groups, column] = u.ids[inside]
    return rows, ids


def _two_matrices(u: OuterProduct, v: OuterProduct) -> Tensor:
    products = []
    for bucket in u.grouping.buckets:
        a, b = bucket.take(u.inputs), bucket.take(u.gradients)
        c, d = bucket.take(v.inputs), bucket.take(v.gradients)
        if formed_is_smaller(min(a.shape[1], c.shape[1]), u.shape):
            formed = (form(a, b) * form(c, d)).sum((1, 2))
            dtype = norm_dtype(b)
            biases = (b.sum(1, dtype=dtype) * d.sum(1, dtype=dtype)).sum(1)
            products.append(formed + u.biases * biases)
        else:
            pairs = (inner_products(a, c) + u.biases) * inner_products(b, d)
            products.append(pairs.sum((1, 2)))
    return u.grouping.join(products, u.gradients)
