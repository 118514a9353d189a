"""The progress of runs: an observer that counts them, and views that show the counts while the runs go on."""

from graphexec.executor.progress.counts import Amount, Status
from graphexec.executor.progress.observer import Progress
from graphexec.executor.progress.views import View

__all__ = ["Amount", "Progress", "Status", "View"]
