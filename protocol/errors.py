"""Every way a protocol can fail, by name.

All derive from `PsephosError`, so a caller can catch the library's failures and nothing else. Those that report
a bad argument also derive from `ValueError`. No message ever contains a secret. No paper behind it: the names are ours.
"""

from __future__ import annotations

__all__ = [
    "AgreementError",
    "AlreadyCastError",
    "AlreadyDoneError",
    "AlreadyOpenedError",
    "BallotError",
    "BoardError",
    "BudgetExceededError",
    "CheatingError",
    "CiphertextError",
    "ConvergenceError",
    "DataError",
    "DataSetMissingError",
    "DegreeError",
    "DivergenceError",
    "DuplicateBallotError",
    "EngineError",
    "EquivocationError",
    "ForgedSignatureError",
    "GradientBoundError",
    "GridTooCoarseError",
    "InvalidParameter",
    "JournalError",
    "KeyFileError",
    "KeyFilePermissionsError",
    "LateBallotError",
    "MessageError",
    "ModelError",
    "NormError",
    "PackingError",
    "PackingOverflowError",
    "PartyVanishedError",
    "ProofError",
    "PsephosError",
    "RandomnessExhausted",
    "ReportError",
    "ReportVersionError",
    "SchedulerMissingError",
    "ShareRangeError",
    "StudyError",
    "ThresholdError",
    "TooFewBallotsError",
    "UnconfirmedError",
    "UnexpectedMessageError",
    "UnknownPartyError",
    "UnseenBallotError",
    "UnsuitableKeyError",
    "WeakKeyError",
    "WorkersLostError",
    "WrongKeyError",
    "WrongPartialDecryptionError",
    "WrongPointError",
    "WrongRoundError",
]


class PsephosError(Exception):
    """The root of every error raised on purpose by this library."""


def without_traceback(error: PsephosError) -> PsephosError:
    """The error without the frames that it came through: these hold on to all they worked on, 64 MB of an entry."""
    error.__traceback__ = error.__context__ = None
    return error


class InvalidParameter(PsephosError, ValueError):
    """An argument outside its range: epsilon, lambda, a size, a name."""


# -- randomness, keys and key files


class RandomnessExhausted(PsephosError):
    """A replayed tape ended early."""


class WeakKeyError(InvalidParameter):
    """A modulus under 2048 bits that nobody called a test key."""


class WrongKeyError(PsephosError):
    """A ciphertext, vector, share or message made under another key."""


class UnsuitableKeyError(PsephosError):
    """A randomness mode whose assumption this key does not meet (a foreign key with `half` or `short`)."""


class DegreeError(UnsuitableKeyError):
    """A key of degree above 1 where only Paillier's own, of degree 1, can be used."""


class KeyFileError(PsephosError):
    """A key file that is missing, damaged or of another kind."""


class KeyFilePermissionsError(KeyFileError):
    """A secret key file that others than its owner can read."""


# -- data and classifiers


class DataError(PsephosError, ValueError):
    """Samples or labels that cannot be used: NaN, infinite, empty, wrong width, one class, unknown labels."""


class NormError(DataError):
    """A feature row longer than 1, which every sensitivity assumes away."""


class DataSetMissingError(PsephosError):
    """A data set's files were not found; the message says where to put them."""


# -- packed vectors and ciphertexts


class PackingError(InvalidParameter):
    """A plan or a vector that does not fit: an entry out of range, too many addends, too wide a slot."""


class PackingOverflowError(PackingError):
    """One addition more than the plan has room for."""


class CiphertextError(PsephosError):
    """A ciphertext that is no unit modulo n squared: 0, n, out of range, or sharing a factor with n."""


# -- messages and ballots


class MessageError(PsephosError):
    """Bytes that are not a well-formed message of the expected type."""


class BallotError(PsephosError):
    """A ballot that must not be counted; each reason is a subclass."""


class WrongRoundError(BallotError):
    """A ballot or request made for another round (or plan, or auxiliary set)."""


class ProofError(BallotError):
    """A proof that came with a message does not hold: it is malformed, of another statement, or of a false one."""


class UnknownPartyError(BallotError):
    """A sender who did not register before the round."""


class ForgedSignatureError(BallotError):
    """A signature that does not verify under the registered key."""


class DuplicateBallotError(BallotError):
    """A second ballot from one party in one round."""


class LateBallotError(BallotError):
    """A ballot that came to the board after the vote was closed."""


class AlreadyDoneError(PsephosError):
    """What is done once only was done before, about something else."""


class AlreadyCastError(AlreadyDoneError):
    """A party was asked to vote twice on one auxiliary set, or for its parameters twice: a difference opens them."""


# -- boards


class BoardError(PsephosError):
    """A board that cannot be reached, read or written, or that is no board."""


class EquivocationError(PsephosError):
    """Somebody tells two stories: an author with two entries in one place, or one who was shown another board."""


# -- opening a tally


class TooFewBallotsError(PsephosError):
    """Fewer ballots than the round's agreed minimum."""


class UnseenBallotError(PsephosError):
    """A holder was asked to open a product other than that of the ballots it observed."""


class UnconfirmedError(PsephosError):
    """Fewer key holders than agreed have confirmed, on the board, what a request wants opened."""


class AlreadyOpenedError(AlreadyDoneError):
    """A holder was asked for a second opening of one round."""


class ThresholdError(PsephosError):
    """Too few partial decryptions, the same holder twice, or a holder who is not one."""


class WrongPartialDecryptionError(ThresholdError):
    """Partial decryptions that do not combine to a valid opening."""


# -- privacy


class GridTooCoarseError(InvalidParameter):
    """A lattice whose pitch is larger than the noise it should carry."""


class BudgetExceededError(PsephosError):
    """A release that would cost more epsilon or delta than is left; nothing was charged."""


# -- fitting


class ConvergenceError(PsephosError):
    """A solver that is proved to converge did not: a defect of this library, never a property of the data."""


# -- Pathak 2010


class StudyError(PsephosError):
    """A study that nobody should sign, that cannot be read, or that does not have whoever asks."""


class AgreementError(PsephosError):
    """The participants do not mean the same run: features, lambda, classes, key or another term differs."""


class CheatingError(AgreementError):
    """A holder said, in a ceremony, what it should not have said; the message names it. There is no key: start again
    without it."""


class UnexpectedMessageError(MessageError):
    """A message that was seen before, comes out of order, belongs to another run or is meant for somebody else."""


class ShareRangeError(MessageError):
    """A share, or a value opened from one, outside the range that the protocol gives it."""


# -- iterative protocols


class PartyVanishedError(PsephosError):
    """A party that an iterative run cannot go on without did not answer."""


class WrongPointError(PsephosError):
    """A step was announced at another point than the one that follows from the sums before it."""


class DivergenceError(PsephosError, ValueError):
    """Step sizes that cannot converge, or an iterate that ran away."""


class GradientBoundError(PsephosError):
    """A party's gradient is above the agreed bound and clipping was not agreed on; nothing was sent."""


class JournalError(PsephosError):
    """What a run or a role keeps on disk is damaged, belongs to another one, or cannot be written."""


# -- reports


class ModelError(PsephosError):
    """A model file that is missing, too large or not of this program; or one that cannot be written."""


class ReportError(PsephosError):
    """A saved result that is truncated, inconsistent or not of this program; or a report that cannot be written."""


class ReportVersionError(ReportError):
    """A saved result in a format of another version of this program."""


# -- engines


class EngineError(PsephosError):
    """The processes or machines that were to do the work cannot be used."""


class SchedulerMissingError(EngineError):
    """No Dask scheduler answers at the address given, or it has no workers."""


class WorkersLostError(EngineError):
    """Worker processes died again and again without finishing a batch; what was committed to a journal is kept."""
