"""ONNX graphs of traced functions: each JAX operation becomes one or a few ONNX operators.

What does not depend on the rows is computed here, once, so that a graph holds little more than distances, kernels and
products. The number of rows is left open.
"""

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tightgp.io.program import Description

#: The version of ONNX's operators, which onnxruntime 1.14 and later have.
OPSET = 18
#: A loop of at most so many turns is written out.
_LOOP = 256

#: What to do where ONNX lacks an operator.
_INSTEAD = "pass neighbours=0, or give a name that does not end in .onnx, which exports a StableHLO program"

_SAME = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "max": "Max", "min": "Min", "pow": "Pow", "neg": "Neg",
    "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "abs": "Abs", "sin": "Sin", "cos": "Cos", "tanh": "Tanh",
    "logistic": "Sigmoid", "sign": "Sign", "floor": "Floor", "not": "Not", "and": "And", "or": "Or",
    "lt": "Less", "gt": "Greater", "le": "LessOrEqual", "ge": "GreaterOrEqual", "eq": "Equal",
}  # fmt: skip
_REDUCED = {"reduce_sum": "ReduceSum", "reduce_max": "ReduceMax", "reduce_min": "ReduceMin"}
_NOTHING = ("stop_gradient", "name", "copy", "copy_p", "optimization_barrier", "reduce_precision")
_INSIDE = (
    "jit",
    "pjit",
    "closed_call",
    "custom_jvp_call",
    "custom_vjp_call",
    "custom_vjp_call_jaxpr",
    "remat",
    "checkpoint",
)


class _Node(NamedTuple):
    """A value that depends on the rows, by its name in the graph."""

    name: str


def onnx_installed() -> None:
    """Refuse where the package is missing, before anything is computed."""
    try:
        import onnx  # noqa: F401
    except ImportError:
        raise ImportError("ONNX graphs need the package onnx: pip install 'tightgp[export]'") from None


def to_onnx(function: Callable, description: Description) -> Any:
    """The graph of ``function``: rows (n, C) → the outputs, for any n."""
    import onnx
    from onnx import helper

    from tightgp.exporting.export import rows_of_any_number

    rows = rows_of_any_number(description)
    closed = jax.make_jaxpr(function)(rows)
    graph = _Graph(rows.shape[0])
    outs = graph.evaluate(closed.jaxpr, closed.consts, [_Node("rows")])
    results = []
    for name, out, aval in zip(description.outputs, outs, closed.out_avals, strict=True):
        graph.add("Identity", [out], name=name)
        results.append(helper.make_tensor_value_info(name, _onnx_type(aval.dtype), [graph.dim(d) for d in aval.shape]))
    given = helper.make_tensor_value_info("rows", _onnx_type(rows.dtype), ["n", rows.shape[1]])
    built = helper.make_graph(graph.nodes, "tightgp", [given], results, graph.constants)
    model = helper.make_model(built, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="tightgp")
    model.ir_version = 8
    helper.set_model_props(model, {"tightgp": json.dumps(asdict(description))})
    onnx.checker.check_model(model, full_check=True)
    return model


def _onnx_type(dtype) -> int:
    from onnx import helper

    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


class _Graph:
    """Nodes and constants as they come."""

    def __init__(self, any_number):
        self.any_number = any_number
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._count = 0
        self._num_rows: _Node | None = None

    def evaluate(self, jaxpr, consts, args) -> list:
        """What a traced program gives, for arrays and for nodes."""
        known: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
        known.update(zip(jaxpr.invars, args, strict=True))

        def read(atom):
            return atom.val if hasattr(atom, "val") else known[atom]

        for eqn in jaxpr.eqns:
            inputs = [read(atom) for atom in eqn.invars]
            known.update(zip(eqn.outvars, self._equation(eqn, inputs), strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def _equation(self, eqn, inputs: list) -> list:
        name, params = eqn.primitive.name, eqn.params
        if name in _INSIDE:
            inner = params.get("jaxpr") or params.get("call_jaxpr") or params.get("fun_jaxpr")
            return self.evaluate(getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), inputs)
        if name in _NOTHING:
            return inputs
        if name == "scan":
            return self._loop(params, inputs)
        fixed = all(isinstance(d, int) for var in eqn.outvars for d in var.aval.shape)
        if fixed and not any(isinstance(one, _Node) for one in inputs):
            out = eqn.primitive.bind(*map(jnp.asarray, inputs), **params)
            return list(out) if eqn.primitive.multiple_results else [out]
        if name in _SAME:
            return [self.add(_SAME[name], inputs)]
        if name in _REDUCED:
            return [self.add(_REDUCED[name], [inputs[0], _indices(params["axes"])], keepdims=0)]
        rule = getattr(self, f"_{name}", None)
        if rule is None:
            raise ValueError(
                f"onnxruntime has no operator for {name} in {eqn.outvars[0].aval.dtype}, which these predictions "
                f"need; {_INSTEAD}"
            )
        return [rule(eqn, *inputs)]

    def add(self, operator: str, inputs: list, *, name: str | None = None, **attributes) -> _Node:
        """A node with this operator; inputs are nodes or arrays."""
        from onnx import helper

        name = name or self._new_name()
        named = [one.name if isinstance(one, _Node) else self._constant(one) for one in inputs]
        self.nodes.append(helper.make_node(operator, named, [name], **attributes))
        return _Node(name)

    def _new_name(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def _constant(self, value) -> str:
        from onnx import numpy_helper

        name = self._new_name()
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value).reshape(np.shape(value)), name))
        return name

    def dim(self, size) -> int | str:
        """A size as ONNX writes it."""
        if isinstance(size, int):
            return size
        if size is not self.any_number and size != self.any_number:
            raise ValueError(f"an array has {size} rows, where ONNX needs as many as there are; {_INSTEAD}")
        return "n"

    def _shape(self, shape) -> Any:
        """A shape as an array, or a node where it depends on the number of rows."""
        if all(isinstance(d, int) for d in shape):
            return _indices(shape)
        if self._num_rows is None:
            self._num_rows = self.add("Shape", [_Node("rows")], start=0, end=1)
        parts = [_indices([d]) if self.dim(d) != "n" else self._num_rows for d in shape]
        return self.add("Concat", parts, axis=0)

    def _reshaped(self, value, shape):
        """A reshape, in which one size may be left open."""
        return self.add("Reshape", [value, _indices([-1 if self.dim(d) == "n" else d for d in shape])])

    def _loop(self, params, inputs: list) -> list:
        """A loop over known arrays, written out."""
        consts, carried = inputs[: params["num_consts"]], inputs[params["num_consts"] :]
        carried, each = carried[: params["num_carry"]], carried[params["num_carry"] :]
        jaxpr, length = params["jaxpr"], params["length"]
        stacked = len(jaxpr.out_avals) - len(carried)
        if stacked or not isinstance(length, int) or length > _LOOP or any(isinstance(one, _Node) for one in each):
            raise ValueError(f"ONNX has no operator for a loop over rows, which these predictions need; {_INSTEAD}")
        turns = range(length - 1, -1, -1) if params["reverse"] else range(length)
        for i in turns:
            carried = self.evaluate(jaxpr.jaxpr, jaxpr.consts, [*consts, *carried, *(one[i] for one in each)])
        return carried

    def _dot_general(self, eqn, a, b):
        (contract_a, contract_b), (batch_a, batch_b) = eqn.params["dimension_numbers"]
        shapes = [atom.aval.shape for atom in eqn.invars]
        if not batch_a and len(shapes[0]) == len(shapes[1]) == 2 and len(contract_a) == 1:
            a = self.add("Transpose", [a], perm=[1, 0]) if contract_a[0] == 0 else a
            b = self.add("Transpose", [b], perm=[1, 0]) if contract_b[0] == 1 else b
            return self.add("MatMul", [a, b])
        letters = iter("abcdefghijklmnopqrstuvwxyz")
        left = [next(letters) for _ in shapes[0]]
        right = [next(letters) for _ in shapes[1]]
        for i, j in zip((*contract_a, *batch_a), (*contract_b, *batch_b), strict=True):
            right[j] = left[i]
        free_a = [left[i] for i in range(len(left)) if i not in (*contract_a, *batch_a)]
        free_b = [right[j] for j in range(len(right)) if j not in (*contract_b, *batch_b)]
        out = "".join([left[i] for i in batch_a] + free_a + free_b)
        return self.add("Einsum", [a, b], equation=f"{''.join(left)},{''.join(right)}->{out}")

    def _broadcast_in_dim(self, eqn, value, *sizes):
        shape, where = eqn.params["shape"], eqn.params["broadcast_dimensions"]
        old = eqn.invars[0].aval.shape
        placed = [old[where.index(i)] if i in where else 1 for i in range(len(shape))]
        value = self._reshaped(value, placed)
        return value if tuple(placed) == tuple(shape) else self.add("Expand", [value, self._shape(shape)])

    def _reshape(self, eqn, value, *sizes):
        return self._reshaped(value, eqn.outvars[0].aval.shape)

    _squeeze = _expand_dims = _reshape

    def _transpose(self, eqn, value):
        return self.add("Transpose", [value], perm=list(eqn.params["permutation"]))

    def _concatenate(self, eqn, *values):
        return self.add("Concat", list(values), axis=eqn.params["dimension"])

    def _stack(self, eqn, *values):
        axis = eqn.params["axis"]
        shape = list(eqn.outvars[0].aval.shape)
        shape[axis] = 1
        return self.add("Concat", [self._reshaped(value, shape) for value in values], axis=axis)

    def _select_n(self, eqn, which, *cases):
        if len(cases) != 2:
            raise ValueError(f"ONNX has no choice between {len(cases)} cases; {_INSTEAD}")
        return self.add("Where", [which, cases[1], cases[0]])

    def _convert_element_type(self, eqn, value):
        return self.add("Cast", [value], to=_onnx_type(eqn.params["new_dtype"]))

    def _ne(self, eqn, a, b):
        return self.add("Not", [self.add("Equal", [a, b])])

    def _integer_pow(self, eqn, value):
        power = eqn.params["y"]
        if power == 2:
            return self.add("Mul", [value, value])
        return self.add("Pow", [value, np.asarray(power, eqn.invars[0].aval.dtype)])

    def _square(self, eqn, value):
        return self.add("Mul", [value, value])

    def _rsqrt(self, eqn, value):
        return self.add("Reciprocal", [self.add("Sqrt", [value])])

    def _log1p(self, eqn, value):
        return self.add("Log", [self.add("Add", [value, np.ones((), eqn.invars[0].aval.dtype)])])

    def _expm1(self, eqn, value):
        return self.add("Sub", [self.add("Exp", [value]), np.ones((), eqn.invars[0].aval.dtype)])

    def _is_finite(self, eqn, value):
        return self.add("Not", [self.add("Or", [self.add("IsNaN", [value]), self.add("IsInf", [value])])])

    def _slice(self, eqn, value):
        params = eqn.params
        axes = range(len(params["start_indices"]))
        ends = [end if isinstance(end, int) else np.iinfo(np.int64).max for end in params["limit_indices"]]
        steps = params["strides"] or [1] * len(ends)
        return self.add("Slice", [value, *map(_indices, (params["start_indices"], ends, axes, steps))])

    def _gather(self, eqn, value, index):
        """Columns and ranges of columns, at places that are known."""
        numbers, sizes = eqn.params["dimension_numbers"], eqn.params["slice_sizes"]
        shape, axes = eqn.invars[0].aval.shape, numbers.start_index_map
        whole = all(sizes[i] == d for i, d in enumerate(shape) if i not in axes)
        if isinstance(index, _Node) or not whole or numbers.operand_batching_dims:
            raise ValueError(f"ONNX has no operator for this choice of entries; {_INSTEAD}")
        index = np.asarray(index)
        if index.ndim == 1:
            ends = [start + sizes[axis] for start, axis in zip(index.tolist(), axes, strict=True)]
            kept = self.add("Slice", [value, *map(_indices, (index.tolist(), ends, axes))])
            return self._reshaped(kept, eqn.outvars[0].aval.shape) if numbers.collapsed_slice_dims else kept
        if index.ndim != 2 or numbers.collapsed_slice_dims != axes or len(axes) != 1:
            raise ValueError(f"ONNX has no operator for this choice of entries; {_INSTEAD}")
        kept = self.add("Gather", [value, _indices(index[:, 0])], axis=axes[0])
        at = next(i for i in range(len(shape)) if i not in numbers.offset_dims)
        order = [i for i in range(len(shape)) if i != axes[0]]
        order.insert(at, axes[0])
        return kept if at == axes[0] else self.add("Transpose", [kept], perm=order)


def _indices(values) -> np.ndarray:
    return np.asarray(list(values), np.int64)
