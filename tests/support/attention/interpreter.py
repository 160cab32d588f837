"""Triton's interpreter for the tests: the same results in less time, and the same on every CPU."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def shortcuts(numpy_products: bool = False) -> list[tuple[Any, str, Any]]:
    """(object, attribute, value) to set while kernels are interpreted; `numpy_products`: rounded as numpy does it."""
    from triton.language import core, semantic
    from triton.runtime import interpreter

    function, launch = interpreter.InterpretedFunction, interpreter.InterpretedFunction.run
    patched: set[int] = set()

    # triton.language is patched on every call of a device function. Once for each launch and module is enough.

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        patched.clear()  # at its end a launch takes back what it has patched
        return launch(self, *args, **kwargs)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if id(self.fn.__globals__) not in patched:
            interpreter._patch_lang(self.fn)
            patched.add(id(self.fn.__globals__))
        return self.rewrite()(*args, **kwargs)

    # A table of all types is made whenever one is looked up.

    dtypes, find = {}, interpreter._get_np_dtype

    def np_dtype(dtype: Any) -> Any:
        name = dtype.scalar.name
        if name not in dtypes:
            dtypes[name] = find(dtype)
        return dtypes[name]

    # Every product, sum and difference of ints is computed once more in int64, to be compared with the largest int; but
    # without debug=True, which a launch does not have, nothing looks at the result. It took a third of the time.

    def no_overflow_check(self: Any, lhs: Any, rhs: Any, binary_op: Any) -> None:
        assert not self.builder.options.debug

    # Reductions by functions of ours are done number by number. They are elementwise, so slices do as well.

    def generic_reduce(self: Any, tensors: tuple[Any, ...]) -> Any:
        assert len(tensors) == 1
        assert self.axis is not None
        slices = np.moveaxis(tensors[0].handle.data, self.axis, 0)
        total = self.to_tensor(slices[0], tensors[0].dtype)
        for part in slices[1:]:
            total = self.combine_fn.fn(total, self.to_tensor(part, tensors[0].dtype))
        data = total.handle.data
        return [self.to_tensor(np.expand_dims(data, self.axis) if self.keep_dims else data, tensors[0].dtype)]

    # On some CPUs numpy's float32 products depend on the place of a row in its tile; on a GPU they never do, and where
    # logits are large that would show. Rounded from float64 they do not either.

    def create_dot(self: Any, a: Any, b: Any, d: Any, input_precision: Any, max_num_imprecise_acc: Any) -> Any:
        product = np.matmul(a.data, b.data, dtype=np.float64).astype(d.data.dtype)
        return interpreter.TensorHandle(product + d.data, d.dtype.scalar)

    # Each number is a tensor, each tensor has a type, a shape and its size: made once for each shape, they are not
    # checked again, nor compared field by field.

    blocks: dict[Any, dict[str, Any]] = {}
    shapes: dict[tuple[int, ...], tuple[Any, Any]] = {}
    make_block, equal = core.block_type.__init__, core.tuple.__eq__

    def block_init(self: Any, element_ty: Any, shape: Any) -> None:
        key = element_ty, tuple([getattr(size, "value", size) for size in shape])
        if element_ty.is_ptr():  # two of one name may differ
            return make_block(self, element_ty, shape)
        if key not in blocks:
            make_block(self, element_ty, shape)
            blocks[key] = dict(vars(self))
        vars(self).update(blocks[key])

    def tensor_init(self: Any, handle: Any, type: Any) -> None:
        sizes = tuple(type.shape.values) if type.is_block() else ()
        if sizes not in shapes:
            shapes[sizes] = core.constexpr(math.prod(sizes)), core.tuple([core.constexpr(size) for size in sizes])
        self.handle, self.type, self.dtype = handle, type, type.scalar
        self.numel, self.shape = shapes[sizes]

    def tuple_eq(self: Any, other: Any) -> Any:
        values = other.values if type(other) is core.tuple else other
        plain = type(values) is list and all(type(value) is int for value in values)
        return core.constexpr(self.values == values) if plain else equal(self, other)

    # What two operands have in common is worked out for each operation: once for each pair of types, and not at all for
    # blocks of one shape.

    common: dict[tuple[Any, ...], Any] = {}
    find_common, broadcast = semantic.TritonSemantic.computation_type_impl, semantic.TritonSemantic.broadcast_impl_value

    def computation_type(self: Any, *about: Any) -> Any:
        if about not in common:
            common[about] = find_common(self, *about)
        return common[about]

    def broadcast_impl(self: Any, lhs: Any, rhs: Any) -> Any:
        a, b = lhs.type, rhs.type
        alike = a.shape.values == b.shape.values if a.is_block() and b.is_block() else a.is_block() == b.is_block()
        return (lhs, rhs) if alike else broadcast(self, lhs, rhs)

    dot = [] if numpy_products else [(interpreter.InterpreterBuilder, "create_dot", create_dot)]
    return [
        *dot,
        (function, "run", run),
        (function, "__call__", call),
        (interpreter.ReduceOps, "generic_reduce", generic_reduce),
        (interpreter, "_get_np_dtype", np_dtype),
        (semantic.TritonSemantic, "computation_type_impl", computation_type),
        (semantic.TritonSemantic, "broadcast_impl_value", broadcast_impl),
        (core.block_type, "__init__", block_init),
        (core.tensor, "__init__", tensor_init),
        (core.tuple, "__eq__", tuple_eq),
        (semantic.TritonSemantic, "binary_op_sanitize_overflow_impl", no_overflow_check),
    ]
