"""Profilers: ranges for NVIDIA's and Intel's tools; gradlib's own tables and traces. README.md beside this file says how to use them."""

from gradlib.autograd.profiler.event_list import EventList as EventList
from gradlib.autograd.profiler.events import FunctionEvent as FunctionEvent, FunctionEventAvg as FunctionEventAvg, Kernel as Kernel
from gradlib.autograd.profiler.itt import emit_itt as emit_itt
from gradlib.autograd.profiler.nsys import load_nsys as load_nsys
from gradlib.autograd.profiler.nvprof import load_nvprof as load_nvprof
from gradlib.autograd.profiler.nvtx import emit_nvtx as emit_nvtx
from gradlib.autograd.profiler.profiling import profile as profile
from gradlib.autograd.profiler.record import record_function as record_function
from gradlib.backend.names import suggest_names as _suggest_names

_suggest_names(__name__)
