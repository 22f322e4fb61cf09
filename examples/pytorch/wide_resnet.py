"""Troupe's wide ResNet as a PyTorch module: the model of Sigma2's guide "PyTorch on Olivia" with free
widths. What `troupe export` writes loads into it by load_state_dict(strict=True), and what
safetensors saves of it is a start for `model.weights`."""

from torch import nn


class CbrBlock(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.cbr = nn.Sequential(
            nn.Conv2d(inputs, outputs, kernel_size=3, stride=(1, 1), padding="same", bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
        )

    def forward(self, x):
        return self.cbr(x)


class ConvBlock(nn.Module):
    def __init__(self, inputs, outputs, scale_input, dropout):
        super().__init__()
        self.scale_input = scale_input
        if scale_input:
            self.scale = nn.Conv2d(inputs, outputs, kernel_size=1, stride=(1, 1), padding="same")
        self.layer1 = CbrBlock(inputs, outputs)
        self.dropout = nn.Dropout(dropout)
        self.layer2 = CbrBlock(outputs, outputs)

    def forward(self, x):
        out = self.layer2(self.dropout(self.layer1(x)))
        return out + (self.scale(x) if self.scale_input else x)


class WideResNet(nn.Module):
    def __init__(self, channels=1, widths=(16, 16, 32, 64), classes=10, dropout=0.01):
        super().__init__()
        w = widths
        self.input_block = CbrBlock(channels, w[0])
        self.block1 = ConvBlock(w[0], w[1], True, dropout)
        self.block2 = ConvBlock(w[1], w[1], False, dropout)
        self.pool1 = nn.MaxPool2d(2)
        self.block3 = ConvBlock(w[1], w[2], True, dropout)
        self.block4 = ConvBlock(w[2], w[2], False, dropout)
        self.pool2 = nn.MaxPool2d(2)
        self.block5 = ConvBlock(w[2], w[3], True, dropout)
        self.block6 = ConvBlock(w[3], w[3], False, dropout)
        self.pool = nn.AvgPool2d(7)
        self.flat = nn.Flatten()
        self.fc = nn.Linear(w[3], classes)

    def forward(self, x):
        out = self.block2(self.block1(self.input_block(x)))
        out = self.block4(self.block3(self.pool1(out)))
        out = self.block6(self.block5(self.pool2(out)))
        return self.fc(self.flat(self.pool(out)))
