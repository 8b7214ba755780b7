"""Something happens while a command runs: at the beginning of one of its phases, as progress tells them."""

from tokfmt.run.progress import Progress


class At(Progress):
    """Act once, when a phase begins; `phases` lists those that began.

    Attributes:
        phases: Of each phase its name, total and unit, and how much was done.
    """

    def __init__(self, moment="", act=None):
        super().__init__()
        self.moment, self.act, self.phases = moment, act, []

    def phase(self, name, total, unit):
        self.phases.append([name, total, unit, 0])
        if self.act and name == self.moment:
            act, self.act = self.act, None
            act()

    def advance(self, amount):
        if self.phases:
            self.phases[-1][3] += amount
