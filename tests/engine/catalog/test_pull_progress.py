from sureact.catalog.pull_progress import PullProgress, ignore_progress


def test_progress_may_be_ignored() -> None:
    ignore_progress(PullProgress("downloading", 1, 2))
