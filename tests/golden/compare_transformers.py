#!/usr/bin/env python3
"""Trains small models of Hugging Face's transformers with Troupe and with PyTorch, from the same weights in f64, and
prints the largest difference of a final weight, relative to the weight:

    python -m venv venv && venv/bin/pip install torch==2.15.0 transformers==5.24.0 safetensors
    venv/bin/python compare_transformers.py build/release/bin/troupe [NAME…]

Exit code 1 if one exceeds 1e-6. Some models round to f32 on the way, whatever the precision. CI does not run it."""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers as hf
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

SAMPLES, CLASSES, STEPS, RATE = 8, 5, 4, 0.02
TOLERANCE = 1e-6

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
TEXT = {**SMALL, "vocab_size": 100, "max_position_embeddings": 64}
BERT = {**TEXT, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "classifier_dropout": 0.0,
        "num_labels": CLASSES}
LLAMA = {**TEXT, "num_key_value_heads": 1}
IMAGES = {**SMALL, "image_size": 32, "patch_size": 8, "num_labels": CLASSES}
STAGES = {"hidden_sizes": [8, 16, 16, 16], "depths": [1, 1, 1, 1], "num_labels": CLASSES}


class Logits(nn.Module):
    """A model for classification, which returns its scores beside others."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x).logits


class LastToken(nn.Module):
    """A model without a head, with one on the last token."""

    def __init__(self, model):
        super().__init__()
        self.model, self.head = model, nn.Linear(32, CLASSES)

    def forward(self, x):
        return self.head(self.model(x).last_hidden_state[:, -1])


MODELS = {
    "bert": lambda: Logits(hf.BertForSequenceClassification(hf.BertConfig(**BERT))),
    "bert_eager": lambda: Logits(hf.BertForSequenceClassification(hf.BertConfig(**BERT, attn_implementation="eager"))),
    "electra": lambda: Logits(hf.ElectraForSequenceClassification(hf.ElectraConfig(**BERT, embedding_size=32))),
    "distilbert": lambda: Logits(hf.DistilBertForSequenceClassification(hf.DistilBertConfig(
        dim=32, n_layers=2, n_heads=2, hidden_dim=64, vocab_size=100, num_labels=CLASSES, dropout=0.0,
        attention_dropout=0.0, seq_classif_dropout=0.0))),
    "gpt2": lambda: LastToken(hf.GPT2Model(hf.GPT2Config(
        n_embd=32, n_layer=2, n_head=2, vocab_size=100, n_positions=64, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0))),
    "llama": lambda: LastToken(hf.LlamaModel(hf.LlamaConfig(**LLAMA))),
    "mistral": lambda: LastToken(hf.MistralModel(hf.MistralConfig(**LLAMA))),
    "qwen2": lambda: LastToken(hf.Qwen2Model(hf.Qwen2Config(**LLAMA))),
    "gemma": lambda: LastToken(hf.GemmaModel(hf.GemmaConfig(**LLAMA, head_dim=16))),
    "phi": lambda: LastToken(hf.PhiModel(hf.PhiConfig(**TEXT))),
    "t5_encoder": lambda: LastToken(hf.T5EncoderModel(hf.T5Config(
        vocab_size=100, d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2, dropout_rate=0.0))),
    "vit": lambda: Logits(hf.ViTForImageClassification(hf.ViTConfig(**IMAGES))),
    "deit": lambda: Logits(hf.DeiTForImageClassification(hf.DeiTConfig(**IMAGES))),
    "clip_vision": lambda: LastToken(hf.CLIPVisionModel(hf.CLIPVisionConfig(**IMAGES))),
    "swin": lambda: Logits(hf.SwinForImageClassification(hf.SwinConfig(
        image_size=32, patch_size=4, embed_dim=8, depths=[2, 2], num_heads=[1, 2], window_size=4, num_labels=CLASSES,
        drop_path_rate=0.0))),
    "convnext": lambda: Logits(hf.ConvNextForImageClassification(hf.ConvNextConfig(**STAGES))),
    "resnet": lambda: Logits(hf.ResNetForImageClassification(hf.ResNetConfig(embedding_size=8, **STAGES))),
}
OF_IMAGES = ("vit", "deit", "clip_vision", "swin", "convnext", "resnet")


def run(*command):
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{done.stderr}compare_transformers: error: this failed: {' '.join(map(str, command))}")


def trained_by_troupe(troupe, net, x, classes, folder):
    torch.export.save(
        torch.export.export(net, (x[:2],), dynamic_shapes=({0: torch.export.Dim("batch")},)), folder / "net.pt2")
    for part in ("train", "test"):
        np.save(folder / f"x_{part}.npy", x.numpy())
        np.save(folder / f"y_{part}.npy", classes.numpy())
    (folder / "options.yaml").write_text(
        f"model: {{file: {folder}/net.pt2}}\n"
        f"data: {{name: npy, path: {folder}}}\n"
        f"train: {{epochs: {STEPS}, batch_size: {SAMPLES}, micro_batches: 1, lr: {RATE}, momentum: 0.9, weight_decay: 0}}\n"
        "precision: 64-true\n"
        "parallel: {pipeline: 2}\n")
    run(troupe, "train", folder / "options.yaml", "-o", folder / "run")
    run(troupe, "export", folder / "run", "-o", folder / "run.safetensors")
    return load_file(folder / "run.safetensors")


def trained_by_pytorch(net, x, classes):
    net = net.double()
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE, momentum=0.9)
    for _ in range(STEPS):
        optimizer.zero_grad()
        F.cross_entropy(net(x.double() if x.is_floating_point() else x), classes).backward()
        optimizer.step()
    return net.state_dict()


def difference(name, troupe):
    torch.manual_seed(1)
    net = MODELS[name]().train()
    x = torch.randn(SAMPLES, 3, 32, 32) if name in OF_IMAGES else torch.randint(1, 99, (SAMPLES, 12))
    classes = torch.arange(SAMPLES) % CLASSES
    with tempfile.TemporaryDirectory() as folder:
        ours = trained_by_troupe(troupe, net, x, classes, Path(folder))
    theirs = {key: tensor for key, tensor in trained_by_pytorch(net, x, classes).items() if tensor.is_floating_point()}
    return max(((ours[key].double() - tensor.double()).norm() / (tensor.double().norm() + 1e-6)).item()
               for key, tensor in theirs.items())


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    worst = 0.0
    for name in sys.argv[2:] or MODELS:
        found = difference(name, sys.argv[1])
        worst = max(worst, found)
        print(f"{name:12} {found:.1e}", flush=True)
    sys.exit(worst > TOLERANCE)


if __name__ == "__main__":
    main()
