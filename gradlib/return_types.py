"""The named tuples that operations return, by the operations' names: ``isinstance(x.max(0), gradlib.return_types.max)``.

Source: torch.return_types.
"""

from gradlib.ops.linalg.decompositions import QR as linalg_qr, SVD as linalg_svd, Eig as linalg_eig, Eigh as linalg_eigh
from gradlib.ops.linalg.determinant import Slogdet as linalg_slogdet
from gradlib.ops.linalg.solve import Lstsq as linalg_lstsq
from gradlib.ops.minmax import Max as max, Min as min, MinMax as aminmax
from gradlib.ops.scan import Cummax as cummax, Cummin as cummin
from gradlib.ops.sort import KthValue as kthvalue, Median as median, Sort as sort, TopK as topk

slogdet = linalg_slogdet

__all__ = [
    "aminmax", "cummax", "cummin", "kthvalue", "linalg_eig", "linalg_eigh", "linalg_lstsq", "linalg_qr", "linalg_slogdet", "linalg_svd",
    "max", "median", "min", "slogdet", "sort", "topk",
]  # fmt: skip
