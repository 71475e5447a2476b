"""A tour of what Lacus does today, on data made on the spot.

Run it with `make demo`. Every line of output is what really happened.
"""

import pickle
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import lacus

ROOT = Path(__file__).resolve().parent.parent
COMMAND = ROOT / "target" / "debug" / "lacus"


def title(text):
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n== {text}")


def timed(label, work):
    start = time.perf_counter()
    result = work()
    print(f"  {label}: {(time.perf_counter() - start) * 1000:.1f} ms")
    return result


def command(*words):
    print("  $ lacus " + " ".join(str(w) for w in words))
    done = subprocess.run([str(COMMAND), *map(str, words)], text=True, capture_output=True)
    for line in (done.stdout + done.stderr).splitlines():
        print("    " + line)
    if done.returncode:
        raise SystemExit(f"lacus exited with {done.returncode}")


def size_of(path):
    return sum(f.stat().st_size for f in Path(path).rglob("*") if f.is_file())


def photos(rng, count):
    """Smooth pictures with a little noise, like small photos."""
    y, x = np.mgrid[0:128, 0:128] / 128
    phase = rng.random((count, 3, 1, 1)) * 6.28
    waves = np.sin(phase + 6 * x) + np.cos(phase * 2 + 4 * y)
    return ((waves + 2) * 60 + rng.integers(0, 8, (count, 3, 128, 128))).astype(np.uint8)


def counts(rng):
    """Events in space and time: a sparse count tensor (day, hour, y, x)."""
    n = 200_000
    place = np.clip(rng.normal(0.5, 0.15, (n, 2)), 0, 0.999)
    cells = np.column_stack([
        rng.integers(0, 60, n), rng.integers(0, 24, n), place[:, 0] * 400, place[:, 1] * 600
    ]).astype(np.int64)
    cells, times = np.unique(cells, axis=0, return_counts=True)
    return lacus.SparseTensor(cells, times.astype(np.float32), (60, 24, 400, 600))


def main():
    rng = np.random.default_rng(7)
    home = Path(tempfile.mkdtemp(prefix="lacus-demo-"))
    url = home / "dataset"
    try:
        title("Create a dataset and put a dense tensor")
        ds = lacus.create(url)
        images = photos(rng, 256)
        timed(f"put photos {images.shape} {images.dtype}, {images.nbytes / 2**20:.0f} MiB", lambda: ds.put("photos", images))
        photo = ds["photos"]
        print(f"  layout {photo.layout}, chunks {photo.chunk_shape}, stored {photo.stored_bytes / 2**20:.1f} MiB")

        title("Read any slice without reading the whole")
        part = timed("photos[100:110, :, ::2, 32:96]", lambda: photo[100:110, :, ::2, 32:96])
        assert (part == images[100:110, :, ::2, 32:96]).all()
        print(f"  -> {part.shape}, equal to numpy's")

        title("A sparse tensor: the layout chooses itself")
        events = counts(rng)
        timed(f"put events {events.shape}, {events.nnz:,} nonzeros", lambda: ds.put("events", events))
        stored = ds["events"]
        plain = events.nnz * (4 * 8 + 4)
        print(f"  layout {stored.layout}, stored {stored.stored_bytes / 2**10:.0f} KiB = "
              f"{100 * stored.stored_bytes / plain:.1f} % of plain coordinates and values")
        day = timed("events[17]", lambda: stored[17])
        print(f"  -> {day.nnz} nonzeros, sum {day.values.sum():.0f}")
        for layout in ["COO", "CSR", "CSC", "CSF", "BSGS"]:
            ds.put("try", events, layout=layout)
            print(f"  as {layout:<5} {ds['try'].stored_bytes / 2**10:7.0f} KiB")
        del ds["try"]

        title("A model's weights in one commit")
        weights = {f"model/layer{i}/{k}": rng.standard_normal(s).astype(np.float32)
                   for i in range(12) for k, s in [("w", (256, 256)), ("b", (256,))]}
        version = timed(f"put_all of {len(weights)} tensors", lambda: ds.put_all(weights))
        print(f"  version {version}, one commit")

        title("Change in place: region, append, resize")
        before = ds.version
        photo[3, 0, :10, :10] = 255
        photo.append(images[:4])
        print(f"  photos is now {ds['photos'].shape}, version {ds.version}")
        assert (lacus.open(url, at=before)["photos"][3] == images[3]).all()
        print(f"  version {before} still has the old pixels")

        title("Rows of samples: images of all sizes, labels, captions, boxes")
        samples = lacus.create(home / "samples")
        samples.add_column("image", "image", compression="jpeg")
        samples.add_column("label", "class_label", class_names=["cat", "dog", "bird"])
        samples.add_column("caption", "text")
        samples.add_column("boxes", "bbox")
        pictures = [np.ascontiguousarray(images[i, :, : 40 + i, : 60 + i % 50].transpose(1, 2, 0)) for i in range(80)]
        rows = {
            "image": pictures,
            "label": ["cat", "dog", "bird", None] * 20,
            "caption": [f"picture {i}" for i in range(80)],
            "boxes": [[[1, 2, 10 + i, 20]] * (i % 3) for i in range(80)],
        }
        timed("extend by 80 rows, arrays encoded to JPEG", lambda: samples.extend(rows))
        print(f"  sizes without decoding: {samples['image'].shapes[:3]} ...")
        timed("a part of one image, image[5, 10:20, ::2]", lambda: samples["image"][5, 10:20, ::2])
        before = size_of(home / "samples")
        samples["label"][[3, 7]] = ["dog", "bird"]
        print(f"  two labels fixed: {size_of(home / 'samples') - before:,} bytes written; row 7 is now {samples['label'].names(7)!r}")
        samples.delete_rows([0, 1])
        report = samples.map(
            lambda row: {"brightness": row["image"].mean()}, columns={"brightness": dict(dtype="float32", shape=())}, progress=False
        )
        print(f"  mapped a function over {report.rows} rows: brightness {samples['brightness'][:3]}")
        try:
            samples.extend({"image": [pictures[0], b"no picture"], "label": ["cat", "dog"]})
        except lacus.InvalidError as error:
            print(f"  a broken image: {error}; nothing was written, {len(samples)} rows")
        print("  " + repr(samples.summary()).replace("\n", "\n  "))

        title("Import and export")
        report = samples.export_to(home / "wide.parquet", columns=["label", "caption", "brightness"])
        print(f"  {report.rows} rows to one Parquet file of plain columns")
        back = lacus.from_parquet(home / "wide.parquet", home / "back")
        print(f"  and back: {len(back)} rows, columns {back.columns}")
        command("head", home / "samples", "-n", "3")

        title("History: commits, branches, diff, merge")
        first = samples.commit("samples as they came")
        print(f"  commit {first[:10]}, {len(samples)} rows")
        before = size_of(home / "samples")
        samples.checkout("relabel", create=True)
        print(f"  a branch took {(size_of(home / 'samples') - before) / 1024:.1f} KiB")
        with samples.transaction("fix two labels, drop a row"):
            samples["label"][0] = "bird"
            samples["caption"][1] = "looked at twice"
            samples.delete_rows([2])
        samples.checkout("main")
        samples["caption"][3] = "changed on main"
        samples.commit("a caption")
        print("  " + repr(samples.diff("main", "relabel")).replace("\n", "\n  "))
        samples.merge("relabel")
        samples.tag("trained-on")
        print(f"  merged: {len(samples)} rows, caption 1 is {samples['caption'][1]!r}")
        samples["caption"][1] = "a late change"
        try:
            samples.checkout("relabel")
        except lacus.LacusError as error:
            print(f"  {type(error).__name__}: {error}")
        samples.discard()
        old = lacus.open(home / "samples", at="trained-on")
        print(f"  at the tag: caption 1 is {old['caption'][1]!r}")
        command("log", home / "samples", "--graph", "--oneline")
        command("branch", home / "samples")
        command("check", home / "samples")

        title("Views: rows and columns of one state, as a value")
        train, test = samples.view().split([0.8, 0.2], seed=7)
        print(f"  {len(train)} rows to train on, {len(test)} to test with; nothing was read")
        bright = train.where(train["brightness"] > 120)
        print(f"  {len(bright)} of them are bright: {bright.select(['label', 'caption'])[0]}")
        train.save("train", "the first split")
        print(f"  saved: {samples.views.info('train').rows} rows; pickled: {len(pickle.dumps(samples[10:60]))} bytes for 50 rows that follow each other")
        table = test.to_arrow(["caption", "brightness"], filter=[("brightness", ">", 100.0)])
        print(f"  as Arrow, brighter than 100: {table.num_rows} rows, {table.schema.names}")
        command("views", home / "samples")
        command("head", home / "samples", "--view", "train", "-n", "2", "--columns", "label,caption")

        title("Questions in SQL")
        query = "SELECT label, brightness, image[:8, :8] AS corner WHERE label = 'dog' AND width(image) > 100 ORDER BY brightness DESC LIMIT 3"
        dogs = timed("the brightest wide dogs, as a view", lambda: samples.query(query))
        print(f"  rows {dogs.positions}, corners {dogs['corner'].shape}, {dogs[0]['brightness']:.1f} is the brightest")
        groups = "SELECT label, count(*) AS n, avg(mean(image)) AS light WHERE label IS NOT NULL GROUP BY label ORDER BY n DESC, label"
        print("  " + repr(timed("groups, as a table", lambda: samples.query(groups))).replace("\n", "\n  "))
        some = samples.filter("shape(boxes, 0) = :count AND caption LIKE '%7'", {"count": 2})
        print(f"  two boxes, and a caption that ends with 7: {some['caption']}")
        drawn = samples.query("SELECT * WHERE label IS NOT NULL SAMPLE BY max_weight(label = 'dog': 9, True: 1) LIMIT 8 SEED 1")
        print(f"  eight rows, dogs nine times as likely: {drawn['label'].tolist()}")
        sequences = samples.query("SELECT label, caption WHERE label IS NOT NULL GROUP BY label ORDER BY label")
        print(f"  rows stacked by class: {[(label, len(captions)) for label, captions in zip(sequences['label'], sequences['caption'])]}")

        @lacus.udf(returns="float32")
        def contrast(images):
            return [float(image.max()) - float(image.min()) for image in images]

        strong = samples.query("SELECT label, contrast(image) AS c WHERE width(image) > 100 ORDER BY contrast(image) DESC LIMIT 2")
        print(f"  a function of your own: rows {strong.positions} have the strongest contrast, {strong['c'].tolist()}")
        try:
            samples.query("SELECT lable")
        except lacus.InvalidError as error:
            print("  " + str(error).replace("\n", "\n  "))
        command("query", home / "samples", "SELECT label, caption, boxes, image WHERE shape(boxes, 0) > 0 LIMIT 3")

        title("Training: batches in an order that can be repeated, resumed and shared")
        steps = lacus.transforms.Compose([lacus.transforms.RandomResizedCrop(64), lacus.transforms.RandomHorizontalFlip()])
        loader = samples.query("SELECT image, label WHERE label IS NOT NULL").loader(8, shuffle=True, seed=1, transform={"image": steps})
        epoch = iter(loader)
        batch = next(epoch)
        print(f"  {len(loader)} batches; the first one: image {batch['image'].shape} {batch['image'].dtype}, label {batch['label'].tolist()}")
        next(epoch)
        state = loader.state_dict()
        rest = [label for batch in epoch for label in batch["label"].tolist()]
        again = samples.query("SELECT image, label WHERE label IS NOT NULL").loader(8, shuffle=True, seed=1, transform={"image": steps})
        again.load_state_dict(state)
        print(f"  resumed after {state['consumed']} samples: the same rest of the epoch ({[label for batch in again for label in batch['label'].tolist()] == rest})")
        halves = [samples.view().select(["label"]).loader(4, shuffle=True, seed=1, rank=rank, world=2) for rank in range(2)]
        print(f"  on two ranks: {[len(half) for half in halves]} batches each, {sum(len(b['label']) for half in halves for b in half)} samples in all")
        print(f"  {loader.stats()['verdict']}")

        title("Checkpoints: one commit each, no pickle")
        weights = {"model": {"embed": rng.normal(size=(2000, 64)).astype(np.float32), "head": np.zeros((64, 10), np.float32)}, "lr": 0.1}
        timed("step 1000", lambda: lacus.save(weights, home / "run", step=1000, message="warm-up done"))
        weights["model"]["head"] += 1
        second = timed("step 2000", lambda: lacus.save(weights, home / "run", step=2000))
        print(f"  of {second.bytes:,} bytes {second.written:,} were written: only the head had changed")
        print(f"  step 1000 again: head is {lacus.load(home / 'run', step=1000)['model']['head'].max()}, lr is {lacus.load(home / 'run', names=['lr'])['lr']}")
        command("checkpoints", home / "run")

        title("Computing with stored arrays")
        rng = np.random.default_rng(7)
        ds.put_all({"X": rng.normal(size=(4000, 200)), "w": rng.normal(size=200)})
        x = ds["X"].lazy()
        covariance = (x - x.mean(axis=0)).T @ (x - x.mean(axis=0)) / (len(x) - 1)
        made = timed("covariance of (4000, 200), stored", lambda: covariance.store(ds, "covariance", memory="64MiB"))
        error = np.abs(made[:] - np.cov(ds["X"][:].T)).max()
        print(f"  {made.shape}, off by {error:.1e} from numpy; made of {made.metadata['lacus.run']['lanes']} lanes")
        program = """
            X = load("X"); y = X @ load("w"); n = dim(X, 0)
            b = zeros([dim(X, 1)])
            repeat {
                r = X @ b - y
                g = transpose(X) @ r / n
                b = b - 0.5 * g
            } until sum(g * g) < 1e-12
            save(b, "fitted")"""
        fitted = timed("a regression by gradient descent", lambda: lacus.run(program, data=ds))["fitted"]
        print(f"  off by {np.abs(fitted[:] - ds['w'][:]).max():.1e}")
        (home / "fit.lac").write_text(program)
        command("run", home / "fit.lac", "--data", url, "--memory", "64MiB")

        title("Two writers")
        other = lacus.open(url)
        other.put("theirs", np.arange(3))
        ds.put("ours", np.arange(3))
        print(f"  different tensors: both kept ({'theirs' in ds and 'ours' in ds})")
        third = lacus.open(url)
        ds.put("same", np.zeros(3))
        try:
            third.put("same", np.ones(3))
        except lacus.ConflictError as error:
            print(f"  the same tensor: {type(error).__name__}: {error}")

        title("Errors say what is wrong")
        for work in [lambda: ds["photoz"], lambda: ds["photos"][9999], lambda: ds.put("x", np.array([object()]))]:
            try:
                work()
            except lacus.LacusError as error:
                print(f"  {type(error).__name__}: {error}")

        title("Upkeep")
        report = timed("compact", ds.compact)
        print(f"  {report}")
        print(f"  on disk, all versions: {size_of(url) / 2**20:.1f} MiB")

        title("The same from the command line")
        np.save(home / "grid.npy", np.arange(60.0).reshape(6, 10))
        command("put", url, home / "grid.npy")
        command("ls", "--long", url)
        command("info", url, "events")
        command("get", url, "grid", "--slice", "1:3, ::3", "-o", home / "part.npy")
        print("   ", np.load(home / "part.npy").tolist())
        command("history", url, "--limit", "4")
        command("doctor", url)

        title("Other readers see a plain Delta table")
        try:
            import polars as pl
        except ImportError:
            print("  (polars is not installed, skipped)")
        else:
            table = pl.read_delta(str(url))
            print(table.filter(pl.col("dtype").is_not_null() & (pl.col("tensor") != ""))
                  .select("tensor", "dtype", "shape", "layout").head(5))
        print("\nDone.")
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
