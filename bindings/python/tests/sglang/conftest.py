"""SGLang imports torchvision for images, which is built for another torch than the one for CPUs."""

import importlib.machinery
import sys
from unittest.mock import MagicMock

from transformers.utils.import_utils import is_torchvision_available

assert not is_torchvision_available()  # which transformers asks once, and keeps in mind
for name in ("torchvision", "torchvision.io", "torchvision.transforms",
             "torchvision.transforms.functional", "torchvision.transforms.v2",
             "torchvision.transforms.v2.functional"):  # fmt: skip
    module = MagicMock()
    module.__spec__, module.__path__ = importlib.machinery.ModuleSpec(name, None), []
    sys.modules[name] = module
