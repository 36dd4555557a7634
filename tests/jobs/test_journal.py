"""Journals: what a crash may leave is cut off, anything else is refused with the place."""

import os

import pytest

from streamcenters.errors import JobError, JobWriteError
from streamcenters.storage.journal import JournalReader, JournalWriter, read_record
from streamcenters.storage.journal_mark import JournalMark, read_mark, write_mark

JOB = b"0123456789abcdef"
PAYLOADS = [b"first", b"", b"third " * 50, b"fourth"]


def read(path, acknowledged=0, first=1, generation=3, job=JOB):
    reader = JournalReader(str(path), generation, job, first, acknowledged)
    return [record.payload for record in reader], reader


def written(path, payloads=PAYLOADS):
    writer = JournalWriter(read(path)[1])
    offsets = [writer.append(payload) for payload in payloads]
    writer.close()
    return offsets


@pytest.fixture
def path(folder):
    return folder.parent / "journal"


def test_what_was_appended_is_read(path):
    assert read(path)[0] == []
    offsets = written(path)
    payloads, reader = read(path)
    assert payloads == PAYLOADS
    assert reader.length == os.path.getsize(path)
    assert reader.next_sequence == 5
    for sequence, (offset, payload) in enumerate(zip(offsets, PAYLOADS, strict=True), 1):
        assert read_record(str(path), offset, sequence) == payload


def test_a_cut_anywhere_leaves_the_whole_records_before_it_and_appending_goes_on(path):
    offsets = written(path)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        payloads, reader = read(path)
        n_whole = sum(end <= length for end in [*offsets[1:], len(whole)])
        assert payloads == PAYLOADS[:n_whole]
        writer = JournalWriter(reader)
        writer.append(b"next")
        writer.close()
        assert read(path)[0] == [*PAYLOADS[:n_whole], b"next"]


def test_a_cut_of_what_was_acknowledged_is_refused(path):
    written(path)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(JobError, match="journal"):
            read(path, acknowledged=len(whole))
    path.unlink()
    with pytest.raises(JobError, match="0 bytes, but"):
        read(path, acknowledged=len(whole))


def test_a_flipped_bit_in_what_was_acknowledged_is_refused_with_the_place(path):
    offsets = written(path)
    whole = path.read_bytes()
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << (position % 8)
        path.write_bytes(damaged)
        number = sum(offset <= position for offset in offsets)
        with pytest.raises(JobError, match=rf"at byte {offsets[number - 1] if number else 0} "):
            read(path, acknowledged=len(whole))


def test_damage_before_a_sound_record_is_refused_even_if_nothing_is_known_to_be_acknowledged(path):
    offsets = written(path)
    whole = path.read_bytes()
    for position in range(offsets[-1]):
        damaged = bytearray(whole)
        damaged[position] ^= 0x10
        path.write_bytes(damaged)
        with pytest.raises(JobError, match="is damaged at byte"):
            read(path)


def test_records_that_are_swapped_doubled_left_out_or_of_another_journal_are_refused(path, tmp_path):
    offsets = [*written(path), path.stat().st_size]
    whole = path.read_bytes()
    head, *records = [whole[a:b] for a, b in zip([0, *offsets[:-1]], offsets, strict=True)]
    for order in ([1, 0, 2, 3], [0, 0, 1, 2], [0, 2, 3], [0, 1, 3], [1, 2, 3]):
        path.write_bytes(head + b"".join(records[i] for i in order))
        with pytest.raises(JobError, match="damaged"):
            read(path, acknowledged=path.stat().st_size)
    path.write_bytes(whole)
    for other in ({"generation": 4}, {"job": b"f" * 16}):
        with pytest.raises(JobError, match="header of this journal"):
            read(path, acknowledged=len(whole), **other)


@pytest.mark.parametrize("trick", ["link", "pipe", "folder"])
def test_nothing_is_followed_out_of_the_folder(trick, path, tmp_path):
    outside = tmp_path / "outside"
    outside.write_bytes(b"not yours")
    {"link": lambda: path.symlink_to(outside), "pipe": lambda: os.mkfifo(path), "folder": path.mkdir}[trick]()
    with pytest.raises((JobError, JobWriteError), match=r"not a regular file|Is a directory"):
        read(path)
    with pytest.raises((JobError, JobWriteError)):
        JournalWriter(JournalReader(str(path), 3, JOB, 1)).append(b"x")
    assert outside.read_bytes() == b"not yours"


def test_a_mark_is_read_back_and_a_damaged_one_says_nothing(tmp_path):
    path = str(tmp_path / "mark")
    assert read_mark(path, JOB) == JournalMark()
    write_mark(path, JOB, JournalMark(3, 700))
    assert read_mark(path, JOB) == JournalMark(3, 700)
    assert read_mark(path, b"f" * 16) == JournalMark()
    whole = (tmp_path / "mark").read_bytes()
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 1
        (tmp_path / "mark").write_bytes(damaged)
        assert read_mark(path, JOB) == JournalMark()
    (tmp_path / "mark").write_bytes(whole[:-1])
    assert read_mark(path, JOB) == JournalMark()
