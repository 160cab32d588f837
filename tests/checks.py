"""How the shapes and types of signatures are checked: as PEP 484 has it, by which an int is a float too."""

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
