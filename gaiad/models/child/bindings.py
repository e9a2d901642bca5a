"""llama.cpp's C functions without the rest of the llama_cpp package.

Importing the package runs its high-level half too (chat formats, templates, a disk cache): two thirds of a worker's
start and 20 MB that no worker uses. Only child processes import this module.
"""

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any


def _import_bindings() -> Any:
    spec = importlib.util.find_spec("llama_cpp")
    if spec is None or spec.submodule_search_locations is None:
        raise ImportError("llama_cpp is not installed; run `make`")
    if "llama_cpp" not in sys.modules:
        package = ModuleType("llama_cpp")
        package.__path__ = list(spec.submodule_search_locations)
        package.__spec__ = spec
        sys.modules["llama_cpp"] = package
    return importlib.import_module("llama_cpp.llama_cpp")


library = _import_bindings()
