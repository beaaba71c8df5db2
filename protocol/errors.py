"""The errors of this library.

All derive from `PsephosError`, so that a caller can catch the library's errors and no others. Errors that report an
invalid argument also derive from `ValueError`. No message of an error contains a secret.
"""

from __future__ import annotations

from collections.abc import Iterable


class PsephosError(Exception):
    """The base class of all errors of this library.

    Attributes:
        culprits: numbers or names of those who caused it; () where nobody did, or where it is not known who.
        option: the name of the option or parameter to change, such as `key_bits`; "" where there is none.
        limit: the bound that was passed; None where there is none.
        before: identifies what was done before, where it may be done once; b"" otherwise.
    """

    def __init__(
        self,
        *message: object,
        culprits: Iterable[int | str] = (),
        option: str = "",
        limit: float | None = None,
        before: bytes = b"",
    ) -> None:
        super().__init__(*message)
        self.culprits, self.option, self.limit, self.before = tuple(culprits), option, limit, before


def without_traceback(error: PsephosError) -> PsephosError:
    """Remove the traceback of an error: its frames keep their objects alive, such as an entry of 64 MiB."""
    error.__traceback__ = error.__context__ = None
    return error


class InvalidParameter(PsephosError, ValueError):
    """An argument is outside its range: epsilon, lambda, a size, a name."""


# -- keys, key files, packed vectors and ciphertexts


class WeakKeyError(InvalidParameter):
    """A modulus has fewer than 2048 bits, and the key is not marked as a test key."""


class WrongKeyError(PsephosError):
    """A ciphertext, vector, share or message was made under another key."""


class UnsupportedAlgorithmError(PsephosError):
    """The installed OpenSSL does not have an algorithm that is needed."""


class UnsuitableKeyError(PsephosError):
    """The key does not meet the assumption of the randomness mode (a foreign key with `half` or `short`)."""


class KeyFileError(PsephosError):
    """A key file is missing, damaged or of another kind, or cannot be written."""


class PackingError(InvalidParameter):
    """A plan or a vector does not fit: an entry out of range, too many addends, too wide a slot."""


class CiphertextError(PsephosError):
    """A ciphertext is not a unit modulo n squared: 0, n, out of range, or sharing a factor with n."""


# -- data and classifiers


class DataError(PsephosError, ValueError):
    """Samples or labels cannot be used: NaN, infinite, empty, wrong width, one class, unknown labels."""


class NormError(DataError):
    """A feature row has a norm above 1, the bound that every sensitivity assumes."""


class DataSetMissingError(PsephosError):
    """The files of a data set were not found; the message says where to put them."""


# -- messages, ballots and boards


class MessageError(PsephosError):
    """Bytes are not a well-formed message of the expected type."""


class BallotError(PsephosError):
    """A ballot must not be counted; each reason is a subclass."""


class WrongRoundError(BallotError):
    """A ballot or request was made for another round (or plan, or auxiliary set)."""


class ProofError(BallotError):
    """The proof in a message is invalid: malformed, of another statement, or of a false statement."""


class UnknownPartyError(BallotError):
    """The sender is not registered."""


class ForgedSignatureError(BallotError):
    """A signature does not verify under the registered key."""


class DuplicateBallotError(BallotError):
    """A party has sent a second ballot in one round."""


class LateBallotError(BallotError):
    """A ballot was posted after the vote was closed."""


class AlreadyDoneError(PsephosError):
    """Something that may be done once was done before, about another subject."""


class AlreadyCastError(AlreadyDoneError):
    """A party was asked twice for votes on one auxiliary set, or for its parameters; a difference would reveal them."""


class BoardError(PsephosError):
    """A board cannot be reached, read or written, or is not a board."""


class EquivocationError(PsephosError):
    """An author has signed two entries in one place, or readers of a board were shown different logs."""


# -- opening a tally


class TooFewBallotsError(PsephosError):
    """There are fewer ballots than the agreed minimum of the round, or a key holder's noise is missing."""


class UnseenBallotError(PsephosError):
    """A holder was asked to open another product than that of the ballots that it has seen."""


class UnconfirmedError(PsephosError):
    """Fewer key holders than agreed have confirmed, on the board, the product that is to be opened."""


class AlreadyOpenedError(AlreadyDoneError):
    """A holder was asked to open a second product in one round."""


class ThresholdError(PsephosError):
    """There are too few partial decryptions, two of one holder, or one of an unknown holder."""


class WrongPartialDecryptionError(ThresholdError):
    """Partial decryptions do not combine to a valid opening."""


# -- privacy


class BudgetExceededError(PsephosError):
    """A release would cost more epsilon or delta than is left; nothing was charged."""


class BudgetFileError(PsephosError):
    """A budget file is damaged, of another program or version, about other rows, or cannot be read or written."""


# -- fitting


class NoGainError(PsephosError):
    """A release is not expected to be better than what public rows give; nothing was asked of the parties.

    Attributes:
        accuracy: of the model of the public rows, by cross-validation.
        gain, loss: what the release is expected to add to it, and the root mean square of what it may lose.
    """

    def __init__(self, accuracy: float, gain: float, loss: float) -> None:
        super().__init__(
            f"a model of the public rows alone is right on {accuracy:.1%} of them by cross-validation, and in "
            f"simulated worlds the parties' step adds {gain:+.2%} (root mean square loss {loss:.2%}): psephos run "
            "--method rehearsed writes that model"
        )
        self.accuracy, self.gain, self.loss = accuracy, gain, loss


class UselessReleaseError(PsephosError):
    """No gain is expected of a release, and there is no public model in its place; nothing was encrypted or charged.

    Attributes:
        reason: what is expected, in a sentence.
        suggestions: what would make a release worth its cost.
    """

    def __init__(self, reason: str, suggestions: Iterable[str]) -> None:
        self.reason, self.suggestions = reason, tuple(suggestions)
        work = "; ".join(self.suggestions)
        super().__init__(f"{reason} What would work: {work}. --anyway releases all the same", option="anyway")


class ConvergenceError(PsephosError):
    """A solver did not converge although it provably does: a defect of this library, not a property of the data."""


# -- agreements and ceremonies


class StudyError(PsephosError):
    """A study is invalid, cannot be read or written, or does not have the given member."""


class AgreementError(PsephosError):
    """The terms of the participants differ, or the curator's result differs from the study or the board."""


class CheatingError(AgreementError):
    """A holder deviated during key generation; the message names it. There is no key: start again without it."""


class UnexpectedMessageError(MessageError):
    """A message was seen before, comes out of order, is for another receiver, or announces a step at a wrong point."""


class UnsealedMessageError(UnexpectedMessageError):
    """A message that is for one role alone stands on a board in clear."""


class ShareRangeError(MessageError):
    """A share, or a value opened from shares, is outside its range in the protocol."""


# -- iterative protocols


class PartyVanishedError(PsephosError):
    """A role that the run cannot continue without did not answer."""


class DivergenceError(PsephosError, ValueError):
    """Step sizes cannot converge, or an iterate diverged."""


class GradientBoundError(PsephosError):
    """The norm of a party's gradient is above the agreed bound and clipping was not agreed on; nothing was sent."""


class JournalError(PsephosError):
    """The stored state of a run or a role is damaged, belongs to another one, or cannot be written."""


class StoreInUseError(JournalError):
    """Another process has the store open, such as the agent of the same member."""


# -- results and machines


class ModelError(PsephosError):
    """A model file is missing, too large or not of this program, or cannot be written."""


class ReportError(PsephosError):
    """A saved result is truncated, inconsistent or not of this program, or a report cannot be written."""


class EngineError(PsephosError):
    """The processes or machines for the computation cannot be used."""
