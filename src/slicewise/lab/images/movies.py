"""Movies of users, read and written frame by frame through ffmpeg, and the shots they are cut into."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import IO

import numpy as np

from slicewise.lab.data import Array, printable
from slicewise.lab.errors import UserError
from slicewise.lab.images.video import find_encoder

MOVIES = (".mp4", ".mov", ".mkv", ".m4v", ".webm", ".avi")
MOVIES_WRITTEN = (".mp4", ".mov", ".mkv", ".m4v")
# Frames are compared at this size to find cuts. A cut changes colors by more than this many levels in the mean, and by
# several times what the frames around it change: a fast pan changes all of them.
_THUMB_WIDTH, _THUMB_HEIGHT = 64, 36
_CUT, _CUT_RATIO, _CUT_WINDOW = 18.0, 3.0, 4
# Frames of a shot to which its map is fitted.
_FITTED = 8
_QUALITY = ("-c:v", "libx264", "-crf", "16", "-preset", "veryfast", "-pix_fmt", "yuv420p")


@dataclass(frozen=True)
class Movie:
    """A movie file: the size of its frames when upright, and their rate."""

    path: Path
    program: str
    width: int
    height: int
    rate: Fraction

    @classmethod
    def open(cls, path: Path) -> Movie:
        """Find out about a movie.

        Raises:
            UserError: ffmpeg is not installed, or it cannot read the file.
        """
        found = find_encoder(".mp4")
        if found is None or found.program is None:
            raise UserError(
                f"{printable(str(path))} is a movie, which ffmpeg reads: install ffmpeg, or pip install "
                f"'slicewise[video]'"
            )
        # The header of this format has the size, after a phone's rotation, and the rate as a fraction.
        command = [found.program, *_SILENT, "-i", str(path), "-frames:v", "1"]
        command += ["-pix_fmt", "yuv444p", "-f", "yuv4mpegpipe", "-strict", "-1", "pipe:"]
        done = subprocess.run(command, capture_output=True, check=False)
        head = done.stdout.split(b"\n", 1)[0].decode("ascii", "replace").split()
        if done.returncode or not head or head[0] != "YUV4MPEG2":
            raise UserError(
                f"{printable(str(path))} cannot be read as a movie: {_last_words(done.stderr)}; convert it to .mp4"
            )
        told = {word[0]: word[1:] for word in head[1:]}
        rate = Fraction(told.get("F", "25:1").replace(":", "/"))
        return cls(path, found.program, int(told["W"]), int(told["H"]), rate)

    def frames(self, size: tuple[int, int] | None = None) -> Iterator[Array]:
        """Yield the frames (h, w, 3) in 8 bits, one after the other; scaled if a size (w, h) is given.

        Raises:
            UserError: the file is damaged.
        """
        width, height = size or (self.width, self.height)
        command = [
            self.program,
            *_SILENT,
            "-i",
            str(self.path),
            "-map",
            "0:v:0",
            "-r",
            str(self.rate),
        ]
        if size is not None:
            command += ["-vf", f"scale={width}:{height}:flags=area"]
        command += ["-f", "rawvideo", "-pix_fmt", "rgb24", "pipe:"]
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors)
            assert process.stdout is not None
            try:
                while len(held := process.stdout.read(width * height * 3)) == width * height * 3:
                    yield np.frombuffer(held, np.uint8).reshape(height, width, 3)
            finally:
                process.stdout.close()
                process.terminate()
                code = process.wait()
            errors.seek(0)
            if code > 0:
                raise UserError(
                    f"{printable(str(self.path))} is damaged: {_last_words(errors.read())}; convert it again"
                )

    @contextmanager
    def writer(self, path: Path) -> Iterator[IO[bytes]]:
        """Write another movie of this size, rate and sound: a pipe for frames in 8 bits, RGB.

        It gets its name once it is complete.

        Raises:
            UserError: ffmpeg cannot write it.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
            half = Path(folder) / path.name
            size = f"{self.width}x{self.height}"
            command = [self.program, *_SILENT, "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", size]
            command += ["-r", str(self.rate), "-i", "pipe:", "-i", str(self.path)]
            command += ["-map", "0:v", "-map", "1:a?", "-map_metadata", "1", "-c:a", "copy"]
            # Players show odd sizes only in other samplings of color.
            even = self.width % 2 == self.height % 2 == 0
            command += [*_QUALITY[:-1], _QUALITY[-1] if even else "yuv444p"]
            command += ["-movflags", "+faststart"] if path.suffix.lower() != ".mkv" else []
            with tempfile.TemporaryFile() as errors:
                process = subprocess.Popen(
                    [*command, str(half)], stdin=subprocess.PIPE, stderr=errors
                )
                assert process.stdin is not None
                try:
                    yield process.stdin
                    process.stdin.close()
                except BrokenPipeError:
                    pass  # it says below why it ended
                except BaseException:
                    process.kill()
                    process.wait()
                    raise
                code = process.wait()
                errors.seek(0)
                if code:
                    raise UserError(
                        f"{printable(str(path))} cannot be written: {_last_words(errors.read())}; give a name in .mp4"
                    )
            os.replace(half, path)


_SILENT = ("-hide_banner", "-loglevel", "error", "-nostdin", "-y")


def find_shots(movie: Movie) -> list[range]:
    """Return the shots of a movie as ranges of frames, found by sudden changes between small copies."""
    thumbs = [frame.astype(np.int16) for frame in movie.frames((_THUMB_WIDTH, _THUMB_HEIGHT))]
    if not thumbs:
        raise UserError(f"{printable(str(movie.path))} holds no frame: give another file")
    changes = np.array([np.abs(b - a).mean() for a, b in pairwise(thumbs)])
    starts = [0]
    for i, change in enumerate(changes):
        around = np.delete(
            changes[max(0, i - _CUT_WINDOW) : i + _CUT_WINDOW + 1], min(i, _CUT_WINDOW)
        )
        usual = float(np.median(around)) if len(around) else 0.0
        if change > _CUT and change > _CUT_RATIO * usual:
            starts.append(i + 1)
    ends = [*starts[1:], len(thumbs)]
    return [range(start, end) for start, end in zip(starts, ends, strict=True)]


def frames_to_fit(movie: Movie, shots: list[range]) -> list[list[Array]]:
    """Return some frames of each shot, evenly spaced, at most 640 pixels wide."""
    scale = min(1.0, 640 / movie.width)
    size = max(2, round(movie.width * scale)), max(2, round(movie.height * scale))
    chosen = [
        set(np.linspace(shot.start, shot.stop - 1, _FITTED).round().astype(int).tolist())
        for shot in shots
    ]
    found: list[list[Array]] = [[] for _ in shots]
    place = 0
    for index, frame in enumerate(movie.frames(size)):
        while place < len(shots) - 1 and index >= shots[place].stop:
            place += 1
        if index in chosen[place]:
            found[place].append(frame.copy())
    return found


def _last_words(errors: bytes) -> str:
    lines = errors.decode(errors="replace").strip().splitlines()
    return printable(lines[-1]) if lines else "ffmpeg ended without a word"
