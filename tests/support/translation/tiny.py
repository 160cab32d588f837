"""A small grammar of English and French, and a translator that learns it in seconds."""

import random

import torch

import regard
from regard.translation.training.vocabulary import Vocabulary
from regard.translation.translator import Translator

NOUNS = [
    ("dog", "le chien"), ("cat", "le chat"), ("bird", "l'oiseau"), ("child", "l'enfant"), ("baker", "le boulanger"),
    ("girl", "la fille"), ("boy", "le garçon"), ("teacher", "le professeur"), ("doctor", "le médecin"),
    ("neighbour", "le voisin"), ("cow", "la vache"), ("horse", "le cheval"), ("mouse", "la souris"),
    ("singer", "le chanteur"), ("king", "le roi"), ("queen", "la reine"),
]  # fmt: skip
VERBS = [
    ("sees", "voit"), ("likes", "aime"), ("finds", "trouve"), ("takes", "prend"), ("wants", "veut"),
    ("sells", "vend"), ("hides", "cache"), ("draws", "dessine"), ("brings", "apporte"), ("eats", "mange"),
]  # fmt: skip
THINGS = [
    ("bread", "le pain"), ("apple", "la pomme"), ("book", "le livre"), ("letter", "la lettre"), ("key", "la clé"),
    ("ball", "le ballon"), ("hat", "le chapeau"), ("flower", "la fleur"), ("box", "la boîte"), ("chair", "la chaise"),
    ("lamp", "la lampe"), ("stone", "la pierre"),
]  # fmt: skip
TIMES = [("today", "aujourd'hui"), ("every day", "chaque jour"), ("here", "ici"), ("often", "souvent")]


def pair(choose):
    """A sentence and its translation."""
    (who, qui), (does, fait), (what, quoi) = (choose.choice(words) for words in (NOUNS, VERBS, THINGS))
    english, french = f"The {who} {does} the {what}", f"{qui[0].upper()}{qui[1:]} {fait} {quoi}"
    if choose.random() < 0.4:
        when, quand = choose.choice(TIMES)
        english, french = f"{english} {when}", f"{french} {quand}"
    mark = choose.choice([".", ".", "!"])
    return english + mark, french + (" !" if mark == "!" else mark)


def pairs(count, seed=0):
    choose = random.Random(seed)
    return [pair(choose) for _ in range(count)]


def train(steps=160, seed=0):
    """A translator of this grammar: 2 + 2 layers, width 64."""
    state = torch.random.get_rng_state()
    torch.manual_seed(seed)
    data = pairs(3000, seed)
    words = Vocabulary.train([line for both in data for line in both], size=220)
    config = regard.TransformerConfig.tiny(len(words), width=64, hidden=128, positions=128, dropout=0.0)
    model = regard.Transformer(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), 4e-3, betas=(0.9, 0.98), weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, steps)
    ids = [([*words.encode(a), words.end], [words.pad, *words.encode(b), words.end]) for a, b in data]

    def padded(rows):
        return torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], True, words.pad)

    for step in range(steps):
        batch = [ids[(step * 40 + n) % len(ids)] for n in range(40)]
        loss = model.loss(padded([a for a, _ in batch]), padded([b for _, b in batch]))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    torch.random.set_rng_state(state)
    return Translator(model.eval(), words)
