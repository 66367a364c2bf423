"""What a statement of a random program may be: templates whose braces ``draw.py`` fills in, and how many results each has.

    {x} a tensor     {f} one of floating or complex dtype   {r} of real floating dtype   {i} of integer or bool dtype
    {y} a tensor that broadcasts with the first            {like} one of its shape and dtype
    {s} a number     {k} a small integer    {dim} a dimension   {dims} several   {keep} True or False
    {shape} {expand} {perm} {key} {val} {idx} {gidx} {src} {mask} {inner} {dtype}: see ``draw.py``

The number of results is that of a tuple to unpack; "ends" takes the first and the last of a sequence; 0 is a statement without a result.
"""

from __future__ import annotations

Template = tuple[str, "int | str"]


def _many(names: str, form: str, results: int | str = 1) -> list[Template]:
    return [(form.replace("NAME", name), results) for name in names.split()]


POINTWISE = _many(
    "abs absolute acos acosh angle arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh ceil conj_physical cos cosh erf exp "
    "exp2 expm1 fix floor frac isfinite isinf isnan log log10 log1p log2 logical_not nan_to_num neg negative positive real "
    "reciprocal relu round rsqrt sgn sigmoid sign sin sinh sqrt square tan tanh trunc clone ravel numel zeros_like ones_like "
    "atleast_1d atleast_2d atleast_3d flatten conj is_complex is_floating_point resolve_conj",
    "lib.NAME({x})",
)
PAIRS = _many(
    "add sub mul div rsub subtract multiply divide true_divide floor_divide remainder fmod pow maximum minimum fmax fmin atan2 arctan2 "
    "hypot logaddexp eq ne lt le gt ge greater greater_equal less less_equal not_equal logical_and logical_or logical_xor isclose",
    "lib.NAME({x}, {y})",
)
WITH_NUMBERS = [
    *_many("add sub mul div rsub floor_divide remainder fmod pow eq lt ge clamp_min clamp_max", "lib.NAME({x}, {s})"),
    *_many("add sub", "lib.NAME({x}, {y}, alpha={k})"),
    *_many("__add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __pow__ __rpow__ __mod__ __floordiv__", "{x}.NAME({s})"),
    ("{x} + {y}", 1), ("{x} * {y}", 1), ("{x} - {y}", 1), ("{x} / {y}", 1), ("{s} ** {x}", 1), ("{s} / {x}", 1), ("{k} - {x}", 1), ("-{x}", 1),
    ("abs({x})", 1), ("{x} ** {k}", 1), ("{x} ** 2.5", 1), ("{x} % {y}", 1), ("{x} // {y}", 1), ("{x} > {y}", 1), ("~({x} > 0)", 1),
    ("lib.div({x}, {y}, rounding_mode='floor')", 1), ("lib.div({x}, {y}, rounding_mode='trunc')", 1), ("lib.round({r}, decimals=1)", 1),
    ("lib.clamp({x}, {s}, {s})", 1), ("lib.clamp({x}, min={y})", 1), ("lib.clamp({x}, max={s})", 1), ("lib.clip({x}, {s}, {s})", 1),
    ("lib.lerp({f}, {like}, {s})", 1), ("lib.lerp({f}, {like}, {like})", 1), ("lib.where({mask}, {x}, {y})", 1), ("lib.where({mask}, {x}, {s})", 1),
    ("lib.where({x} > 0, {x}, {y})", 1), ("lib.addcmul({x}, {y}, {y}, value={k})", 1), ("lib.addcdiv({f}, {y}, {y}, value={s})", 1),
    ("lib.nan_to_num({f}, {s}, {s}, {s})", 1), ("lib.complex({r}, {like})", 1), ("lib.allclose({x}, {like})", 1), ("lib.equal({x}, {y})", 1),
    ("lib.logical_and({x}, {y})", 1), ("{i} & {i}", 1), ("{i} | {i}", 1), ("{i} ^ {i}", 1), ("~{i}", 1), ("{i} << 1", 1), ("{i} >> 1", 1),
    *_many("bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift", "lib.NAME({i}, {y})"), ("lib.bitwise_not({i})", 1),
]  # fmt: skip
REDUCED = [
    *_many("sum prod mean std var median max min amax amin argmax argmin all any count_nonzero nansum nanmean aminmax norm", "lib.NAME({x})"),
    *_many("sum mean std var amax amin all any nansum nanmean", "lib.NAME({x}, {dim}, {keep})"),
    *_many("sum mean logsumexp amax amin nansum nanmean", "lib.NAME({x}, {dims}, {keep})"),
    *_many("prod argmax argmin all any logsumexp", "lib.NAME({x}, {dim}, {keep})"),
    *_many("std var", "lib.NAME({x}, {dim}, correction={k}, keepdim={keep})"),
    *_many("max min median cummax cummin sort", "lib.NAME({x}, {dim})", 2),
    *_many("max min median", "lib.NAME({x}, {dim}, {keep})", 2),
    *_many("std_mean var_mean", "lib.NAME({x}, {dim})", 2),
    *_many("max min", "lib.NAME({x}, {y})"),
    *_many("cumsum cumprod logcumsumexp softmax log_softmax", "lib.NAME({x}, {dim})"),
    *_many("sum mean prod cumsum softmax", "lib.NAME({x}, {dim}, dtype={dtype})"),
    ("lib.sum({x}, dtype={dtype})", 1), ("lib.kthvalue({x}, 1, {dim})", 2), ("lib.topk({x}, 1, {dim})", 2), ("lib.topk({x}, 2)", 2),
    ("lib.sort({x}, {dim}, True, stable=True)", 2), ("lib.argsort({x}, {dim}, stable=True)", 1), ("lib.diff({x}, dim={dim})", 1),
    ("lib.trapezoid({x}, dim={dim})", 1), ("lib.trace({x})", 1), ("lib.unique({x})", 1), ("lib.aminmax({x}, dim={dim})", 2),
    ("lib.norm({f}, {s})", 1), ("lib.norm({f}, 2, {dim}, {keep})", 1), ("lib.linalg.vector_norm({f}, {s}, {dim})", 1),
    ("lib.linalg.vector_norm({f}, float('inf'))", 1), ("lib.linalg.norm({f})", 1), ("lib.linalg.norm({f}, 1, {dim})", 1),
]  # fmt: skip
SHAPED = [
    *_many("reshape view", "{x}.NAME({shape})"),
    *_many("transpose swapaxes swapdims", "lib.NAME({x}, {dim}, {dim})"),
    *_many("squeeze unsqueeze flip", "lib.NAME({x}, {dim})"),
    *_many("squeeze t adjoint triu tril diag diag_embed diagonal", "lib.NAME({x})"),
    *_many("triu tril diag diagonal", "lib.NAME({x}, {k})"),
    *_many("T mT mH H data grad", "{x}.NAME"),
    *_many("chunk tensor_split", "lib.NAME({x}, 2, {dim})", "ends"),
    *_many("hsplit vsplit dsplit", "lib.NAME({x}, 1)", "ends"),
    *_many("cat stack", "lib.NAME([{x}, {like}], {dim})"),
    *_many("cat hstack vstack dstack column_stack row_stack concat concatenate", "lib.NAME([{x}, {y}])"),
    ("lib.squeeze({x}, {dims})", 1), ("{x}.expand({expand})", 1), ("lib.broadcast_to({x}, {expand})", 1), ("{x}.expand_as({like})", 1),
    ("lib.permute({x}, {perm})", 1), ("{x}.permute({perm})", 1), ("lib.movedim({x}, {dim}, {dim})", 1), ("lib.moveaxis({x}, {dim}, {dim})", 1),
    ("{x}.repeat({expand})", 1), ("lib.tile({x}, (2, 1))", 1), ("lib.repeat_interleave({x}, 2, dim={dim})", 1), ("lib.flip({x}, {dims})", 1),
    ("lib.roll({x}, {k}, {dim})", 1), ("lib.roll({x}, {k})", 1), ("lib.rot90({x})", 1), ("{x}.contiguous()", 1), ("lib.narrow({x}, {dim}, 0, 1)", 1),
    ("lib.select({x}, {dim}, 0)", 1), ("lib.select({x}, {dim}, -1)", 1), ("lib.unbind({x}, {dim})", "ends"), ("{x}.unfold({dim}, 1, 1)", 1),
    ("{x}.unfold({dim}, 2, 1)", 1), ("lib.split({x}, 1, {dim})", "ends"), ("lib.split({x}, 2)", "ends"), ("lib.split_with_sizes({x}, (1, 1), {dim})", "ends"), ("{x}.reshape_as({like})", 1), ("lib.flatten({x}, {dim}, -1)", 1),
    ("lib.unflatten({x}, {dim}, (-1, 1))", 1), ("lib.diag_embed({x}, {k})", 1), ("lib.view_as_real({f})", 1), ("lib.view_as_complex({r})", 1),
    ("lib.real({x})", 1), ("lib.imag({f})", 1), ("{x}.to({dtype})", 1), ("{x}.double()", 1), ("{x}.float()", 1), ("{x}.long()", 1), ("{x}.bool()", 1),
    ("{x}.type_as({y})", 1), ("lib.meshgrid({x}, {x}, indexing='ij')", "ends"), ("lib.broadcast_tensors({x}, {y})", "ends"),
    ("{x}.new_zeros({shape})", 1), ("lib.full_like({x}, {k})", 1), ("{x}.detach()", 1), ("{x}.clone()", 1), ("lib.stack([{x}, {like}, {like}])", 1),
    ("{x}.as_strided((2,), (1,))", 1), ("{x}.reshape(-1)", 1), ("{x}.view(-1)", 1), ("{x}.flatten()", 1),
]  # fmt: skip
INDEXED = [
    ("{x}[{key}]", 1), ("{x}[{key}]", 1), ("{x}[{key}]", 1), ("lib.index_select({x}, {dim}, {idx})", 1), ("lib.gather({x}, {dim}, {gidx})", 1),
    ("lib.take({x}, {flat})", 1), ("lib.take_along_dim({x}, {gidx}, {dim})", 1), ("lib.masked_fill({x}, {mask}, {s})", 1),
    ("lib.masked_select({x}, {mask})", 1), ("lib.masked_scatter({x}, {mask}, {like})", 1), ("lib.nonzero({x})", 1), ("lib.argwhere({x})", 1),
    ("{x}.scatter({dim}, {gidx}, {src})", 1), ("{x}.scatter({dim}, {gidx}, {s})", 1), ("{x}.scatter_add({dim}, {gidx}, {src})", 1),
    *_many("sum prod mean amax amin", "{r}.scatter_reduce({dim}, {gidx}, {src}, 'NAME', include_self={keep})"),
    ("{x}.index_add({dim}, {idx}, {isrc}, alpha={k})", 1), ("{x}.index_copy({dim}, {uidx}, {isrc})", 1), ("{x}.index_fill({dim}, {idx}, {s})", 1),
    ("{x}.index_put(({rows},), {s0})", 1), ("{x}.index_put(({rows},), {s0}, accumulate=True)", 1), ("lib.isin({x}, {like})", 1),
    ("lib.searchsorted(lib.sort({r}.reshape(-1))[0], {r})", 1), ("lib.bucketize({r}, lib.tensor([-1.0, 0.0, 1.0]))", 1),
]  # fmt: skip
PRODUCTS = [
    ("lib.matmul({f}, {inner})", 1), ("{f} @ {inner}", 1), ("lib.matmul({f}, {f})", 1), ("lib.dot({v}, {v2})", 1), ("lib.mv({m}, {inner1})", 1),
    ("lib.mm({m}, {inner})", 1), ("lib.outer({v}, {v})", 1), ("lib.inner({f}, {like})", 1), ("lib.tensordot({f}, {like}, dims={k})", 1),
    ("lib.einsum('...i,...i->...', {f}, {like})", 1), ("lib.einsum('...i,...j->...ij', {f}, {like})", 1), ("lib.einsum('ij->ji', {m})", 1),
    ("lib.einsum('ii', {sq})", 1), ("lib.einsum('ij,ij', {m}, {m})", 1), ("lib.kron({f}, {f})", 1), ("lib.vdot({v}, {v2})", 1),
    ("lib.addmm({s0}, {m}, {inner}, beta={k}, alpha={s})", 1), ("lib.bmm({b3}, {inner})", 1), ("lib.cdist({m}, {m})", 1), ("lib.linalg.vecdot({f}, {like})", 1),
    ("lib.linalg.det({sq})", 1), ("lib.linalg.slogdet({sq})[1]", 1), ("lib.linalg.inv({sq})", 1), ("lib.linalg.solve({sq}, {inner})", 1),
    ("lib.linalg.cholesky({sq} @ {sq}.mH + lib.eye({n}, dtype={sq}.dtype))", 1), ("lib.linalg.matrix_power({sq}, {k})", 1), ("lib.linalg.svdvals({m})", 1),
    ("lib.linalg.pinv({m})", 1), ("lib.linalg.eigvalsh({sq} + {sq}.mH)", 1), ("lib.linalg.matrix_norm({m})", 1), ("lib.linalg.norm({m}, 'nuc')", 1),
    ("lib.linalg.multi_dot([{m}, {inner}])", 1), ("lib.cross({c3}, {like}, dim=-1)", 1), ("lib.inverse({sq})", 1),
    ("lib.addmv({s0}, {m}, {inner1})", 1), ("lib.baddbmm({s0}, {b3}, {inner}, beta={s})", 1), ("lib.linalg.qr({m})[1].abs()", 1), ("lib.pinverse({m})", 1),
    ("lib.linalg.lstsq({m}, {m})[0]", 1), ("lib.linalg.solve_triangular({sq}, {inner}, upper=True)", 1),
]  # fmt: skip
NETWORKS = [
    *_many("relu leaky_relu elu gelu silu softplus logsigmoid sigmoid tanh", "F.NAME({x})"),
    *_many("mse_loss l1_loss smooth_l1_loss huber_loss", "F.NAME({r}, {like})"),
    *_many("mse_loss l1_loss smooth_l1_loss huber_loss", "F.NAME({r}, {like}, reduction='sum')"),
    ("F.softmax({r}, dim={dim})", 1), ("F.log_softmax({r}, dim={dim})", 1), ("F.linear({f}, {weight})", 1), ("F.pad({x}, (1, 1))", 1), ("F.pad({x}, (1, -1), value={s})", 1),
    ("F.layer_norm({r}, {r}.shape[-1:])", 1), ("F.cross_entropy({m}, {labels})", 1), ("F.nll_loss({m}, {labels}, reduction='sum')", 1),
    ("F.binary_cross_entropy_with_logits({r}, {like})", 1), ("F.one_hot({x}.long() % 4, 4)", 1), ("F.embedding({x}.long() % 4, {rows4})", 1), ("F.gelu({r}, approximate='tanh')", 1),
    ("F.cross_entropy({m}, {m}.softmax(1))", 1), ("F.elu({r}, alpha={s})", 1), ("F.leaky_relu({r}, {s})", 1),
]  # fmt: skip
IN_PLACE = [
    *_many(
        "abs_ neg_ sin_ cos_ exp_ tanh_ sigmoid_ sqrt_ square_ reciprocal_ relu_ floor_ round_ sign_ zero_ triu_ tril_ log1p_ trunc_ frac_ sgn_ "
        "nan_to_num_ logical_not_ conj_physical_ erf_ expm1_ atan_ sinh_",
        "{w}.NAME()", 0,
    ),
    *_many("add_ sub_ mul_ div_ pow_ fmod_ remainder_ floor_divide_ eq_ lt_ ge_ copy_ atan2_ hypot_ logical_and_", "{w}.NAME({y})", 0),
    *_many("add_ sub_ mul_ div_ pow_ fill_ clamp_min_ clamp_max_ remainder_ lt_", "{w}.NAME({s})", 0),
    *_many("+= -= *= /=", "{w} NAME {y}", 0), *_many("+= *= /= **=", "{w} NAME {s}", 0),
    ("{w}[{key}] = {val}", 0), ("{w}[{key}] = {val}", 0), ("{w}[{key}] = {s}", 0), ("{w}[{key}] *= {s}", 0), ("{w}[{key}] += {val}", 0),
    ("{w}.masked_fill_({mask}, {s})", 0), ("{w}.masked_scatter_({mask}, {like})", 0), ("{w}.index_fill_({dim}, {idx}, {s})", 0),
    ("{w}.index_add_({dim}, {idx}, {isrc})", 0), ("{w}.index_copy_({dim}, {uidx}, {isrc})", 0), ("{w}.scatter_({dim}, {gidx}, {s})", 0),
    ("{w}.scatter_add_({dim}, {gidx}, {src})", 0), ("{w}.index_put_(({rows},), {s0}, accumulate=True)", 0), ("{w}.lerp_({like}, {s})", 0),
    ("{w}.addcmul_({y}, {y})", 0), ("{w}.clamp_({s}, {s})", 0), ("{w}.transpose_({dim}, {dim})", 0), ("{w}.unsqueeze_({dim})", 0), ("{w}.squeeze_()", 0),
    ("{w}.t_()", 0), ("{w}.swapaxes_({dim}, {dim})", 0), ("{w}.cumsum_({dim})", 0), ("{w}.cumprod_({dim})", 0), ("{w}.detach_()", 0),
    ("lib.add({x}, {like}, out={w})", 0), ("lib.exp({x}, out={w})", 0), ("lib.sum({x}, {dim}, out={w})", 0), ("F.relu({w}, inplace=True)", 0),
]  # fmt: skip
MODES = [
    ("{f}.register_hook(lambda g: g * 2)", 0), ("{f}.register_hook(lambda g: None)", 0), ("{f}.retain_grad()", 0), ("{f}.requires_grad_()", 0),
    ("Cube.apply({f})", 1), ("Scaled.apply({f}, {s})", 1), ("Doubled.apply({f})", 1), ("{f}.sum().backward(retain_graph=True)", 0), ("{f}.sum().backward()", 0),
    ("lib.autograd.grad({f}.sum(), {leaf}, create_graph=True, allow_unused=True)[0]", 1), ("lib.autograd.grad({f}.sum(), {leaf}, retain_graph=True)[0]", 1),
    ("lib.utils.checkpoint.checkpoint(lambda t: t.sin() * t, {f}, use_reentrant=False)", 1), ("lib.autograd.functional.jvp(lambda t: t * t, {r}, {like})[1]", 1),
]  # fmt: skip
FAMILIES: list[tuple[float, list[Template]]] = [
    (2, POINTWISE), (2, PAIRS), (2, WITH_NUMBERS), (2, REDUCED), (3, SHAPED), (2, INDEXED), (1.2, PRODUCTS), (0.8, NETWORKS), (3.5, IN_PLACE), (0.8, MODES),
]  # fmt: skip
