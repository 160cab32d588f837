# %% [markdown]
# # Contacts of a protein
#
# Which residues of a protein touch? ESM-2 reads it off its own attention: a logistic regression over all heads, each
# made symmetric and corrected. `record.contacts()` computes the same from queries and keys, without the matrix of any
# head. `record.mix` does it for weights of your own.
#
# The regression lies in the checkpoint, so nothing is trained. In transformers, `predict_contacts` asks for eager
# attention and stacks the weights of all heads: for ESM-2 with 33 layers of 20 heads and 4,000 residues, these are 42
# GB. The model below is tiny and has random weights: it shows how it works and nothing else.

# %%
import torch
import transformers

import regard

print(f"{33 * 20 * 4000**2 * 4 / 1e9:.0f} GB")
transformers.logging.set_verbosity_error()
torch.manual_seed(0)
LETTERS = ["<cls>", "<pad>", "<eos>", "<unk>", *"LAGVSERTIDPKQNFYMHWC"]
config = transformers.EsmConfig(
    vocab_size=33, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=64, pad_token_id=1,
    mask_token_id=32, token_dropout=True, position_embedding_type="rotary",
)  # fmt: skip
model = transformers.EsmForMaskedLM(config).eval()
with torch.no_grad():
    for weights in model.parameters():
        weights.mul_(8 if weights.dim() > 1 else 1)  # so that heads have preferences
    model.esm.contact_head.regression.weight.mul_(30)

protein = "MKTVRQERLKSIVRILERSKEPVSGAQLAEELSVSRQVIVQDIAYLRSLG"
tokens = ["<cls>", *protein, "<eos>"]  # what the tokenizer of ESM-2 makes of it
ids = torch.tensor([[LETTERS.index(token) for token in tokens]])
with torch.no_grad(), regard.watch(model, tokens=tokens) as record:  # or tokenizer=tokenizer
    model(input_ids=ids)

# %%
contacts = record.contacts()
contacts

# %% [markdown]
# It is the `predict_contacts` of transformers, number by number:

# %%
eager = transformers.EsmForMaskedLM(config).eval()
eager.load_state_dict(model.state_dict())
eager.set_attn_implementation("eager")
with torch.no_grad():
    expected = eager.predict_contacts(ids, torch.ones_like(ids))[0]
print("the same to 0.00001:", bool((contacts.to_dense() - expected).abs().max() < 1e-5))

# %% [markdown]
# ## What to ask
#
# All that an `AttentionMatrix` answers: rows, parts, the largest numbers of each row, bins. None of it ever holds
# residues × residues numbers. For the contacts of a single residue, a row is enough:

# %%
weights, partners = contacts.part[20:23].top(3)
for residue, row in zip(range(20, 23), partners.tolist(), strict=True):
    print(protein[residue], residue, "touches", ", ".join(f"{protein[other]} {other}" for other in row))
contacts.part[:24, :24].picture(kind="matrix", title="Random weights: how, not what")

# %% [markdown]
# ## Weights of your own
#
# `record.mix` takes a number for each head, layer by layer. `symmetric` puts A + Aᵀ in place of A. `apc` subtracts the
# average product of each head: what a pair gets only because its row and its column have much anyway,
# (sum of the row) × (sum of the column) ÷ (sum of all). A head's correction is a product of two vectors, and so it is
# never stored either. `tokens` leaves out `<cls>` and `<eos>`, in these sums too.

# %%
head = model.esm.contact_head.regression
mine = record.mix(head.weight, symmetric=True, apc=True, tokens=slice(1, -1))
by_hand = torch.sigmoid(mine[20] + head.bias.detach())
print("the same:", torch.allclose(by_hand, contacts[20], atol=1e-6))

# %% [markdown]
# A regression of your own, on other contacts or on RNA, needs the numbers of each head at some pairs of residues: a
# `mix` with weight 1 for one head and 0 for all others gives them, or `entry[0, :, i, j]` of each entry in the record.
#
# ## Other models
#
# `contacts` reads the regression of every model that has ESM's classes in transformers. Nucleotide Transformer, a model
# of DNA, is one of them. Whether its checkpoint has a regression that was trained, its card says. Theirs leaves out the
# first and the last token of every text, and so do we. Of a model without such a head, use `mix`.
