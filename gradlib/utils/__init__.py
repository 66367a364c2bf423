"""Tools on top of autograd: checkpointing, pictures of the graph."""

from __future__ import annotations

from gradlib.utils import checkpoint as checkpoint, dlpack as dlpack
from gradlib.utils.picture import graphviz as graphviz, print_graph as print_graph
