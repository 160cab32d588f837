"""What the tests share: models, cases, drawings, processes. A test imports it as `from support.models import …`.

- `checks`: shapes in signatures, checked while the tests run; `disk`: a disk that is full; `models`: small models of transformers.
- `eager`: attention with edits, computed plainly; `samples`: words, numbers and pictures for the tests of drawing.
- `browser`, `browsing`, `page_client`: Chromium, and the page in it or behind a client; `process`: `regard` as a process.
- `attention/`, `distributed/`, `serving/`, `translation/`, `watching/`: the same for the tests of one room.
"""
