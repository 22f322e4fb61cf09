"""In a module of its own, since golden_models.py is also used where torchvision is not there."""

from torch import nn
from torchvision.models import resnet


class NarrowResNet(resnet.ResNet):
    """torchvision's ResNet with 10 classes and few channels, for 3-channel images."""

    def __init__(self, block, layers, widths=(16, 16, 32, 32)):
        super().__init__(block, layers, num_classes=10)
        self.inplanes = widths[0]
        self.conv1 = nn.Conv2d(3, widths[0], 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        for group in range(4):
            made = self._make_layer(block, widths[group], layers[group], stride=2 if group else 1)
            setattr(self, f"layer{group + 1}", made)
        self.fc = nn.Linear(widths[3] * block.expansion, 10)
