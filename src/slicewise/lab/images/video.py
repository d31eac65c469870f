"""Videos by an encoder that happens to be installed: ffmpeg, imageio-ffmpeg or PyAV."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from slicewise.lab.errors import UserError

# Of each format, codecs in order of preference, with options for about the same quality; builds of ffmpeg differ.
_CODECS: dict[str, tuple[tuple[str, dict[str, str]], ...]] = {
    ".mp4": (
        ("libx264", {"crf": "20", "preset": "medium"}),
        ("libopenh264", {"b": "2M"}),
        ("mpeg4", {"b": "4M"}),
    ),
    ".webm": (
        ("libvpx-vp9", {"crf": "28", "b": "0", "deadline": "good", "cpu-used": "4"}),
        ("libvpx", {"crf": "8", "b": "2M"}),
    ),
}
VIDEOS = tuple(_CODECS)


@dataclass(frozen=True)
class Encoder:
    """Writes pictures as a video of one format."""

    suffix: str  # .mp4 or .webm
    program: str | None  # ffmpeg; None for PyAV

    def encode(self, pictures: Sequence[np.ndarray], fps: float) -> bytes:
        """Return a video of pictures (h, w, 3) of 8 bits, h and w even.

        Raises:
            UserError: none of the codecs of the format works.
        """
        trouble = ""
        # A file: the header of an .mp4 is written last.
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"film{self.suffix}"
            for codec, options in _CODECS[self.suffix]:
                if self.program is None:
                    said = _by_pyav(path, pictures, fps, codec, options)
                else:
                    said = _by_ffmpeg(self.program, path, pictures, fps, codec, options)
                if said is None:
                    return path.read_bytes()
                trouble = trouble or f"{codec}: {said}"
        raise UserError(
            f"{self.program or 'PyAV'} cannot write a {self.suffix} video ({trouble}): "
            f"give a name that ends in .gif or .html, which need no encoder"
        )


def find_encoder(suffix: str) -> Encoder | None:
    """Return an encoder for `.mp4` or `.webm`: ffmpeg on the path, else imageio-ffmpeg, else PyAV; None without any."""
    program = shutil.which("ffmpeg")
    if program is None and find_spec("imageio_ffmpeg") is not None:
        import imageio_ffmpeg

        try:
            program = imageio_ffmpeg.get_ffmpeg_exe()
        except RuntimeError:  # installed without its program
            program = None
    if program is not None:
        return Encoder(suffix, program)
    return Encoder(suffix, None) if find_spec("av") is not None else None


def _by_ffmpeg(
    program: str,
    path: Path,
    pictures: Sequence[np.ndarray],
    fps: float,
    codec: str,
    options: dict[str, str],
) -> str | None:
    """Write a video by a process; return its last words if it failed."""
    height, width = pictures[0].shape[:2]
    command = [program, "-hide_banner", "-loglevel", "error", "-nostdin", "-y"]
    command += ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", f"{fps:g}"]
    command += ["-i", "pipe:", "-an", "-c:v", codec, "-pix_fmt", "yuv420p"]
    for name, value in options.items():
        command += [f"-{name}:v" if name == "b" else f"-{name}", value]
    if path.suffix == ".mp4":
        command += ["-movflags", "+faststart"]
    raw = b"".join(picture.tobytes() for picture in pictures)
    done = subprocess.run([*command, str(path)], input=raw, capture_output=True, check=False)
    if done.returncode == 0:
        return None
    words = done.stderr.decode(errors="replace").strip().splitlines()
    return words[-1] if words else f"it ended with status {done.returncode}"


def _by_pyav(
    path: Path, pictures: Sequence[np.ndarray], fps: float, codec: str, options: dict[str, str]
) -> str | None:
    """Write a video by PyAV; return what is wrong if it failed."""
    import av

    own = {name: value for name, value in options.items() if name != "b"}
    height, width = pictures[0].shape[:2]
    try:
        with av.open(str(path), "w") as container:
            stream = container.add_stream(codec, Fraction(fps).limit_denominator(1000), own)
            stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
            if "b" in options:
                stream.bit_rate = int(float(options["b"].replace("M", "e6")))
            for picture in pictures:
                frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
                container.mux(stream.encode(frame))
            container.mux(stream.encode(None))
    except (av.FFmpegError, ValueError) as error:
        return str(error)
    return None
