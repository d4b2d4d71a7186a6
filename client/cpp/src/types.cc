#include "once/types.h"

#include <openssl/sha.h>
#include <sys/random.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "once/outcomes.h"
#include "once/version.h"

namespace once {
namespace {

// The id is what keeps two attempts apart, so there is no weaker source to fall back to.
void FillRandom(uint8_t* data, size_t size) {
  size_t done = 0;
  while (done < size) {
    const ssize_t got = getrandom(data + done, size - done, 0);
    if (got < 0) {
      if (errno == EINTR) continue;
      std::abort();
    }
    done += static_cast<size_t>(got);
  }
}

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool IsHyphenPlace(size_t i) { return i == 8 || i == 13 || i == 18 || i == 23; }

}  // namespace

const char* ClientVersion() {
#define ONCE_TEXT(x) #x
#define ONCE_DOTTED(a, b, c) ONCE_TEXT(a) "." ONCE_TEXT(b) "." ONCE_TEXT(c)
  return ONCE_DOTTED(ONCE_CLIENT_VERSION_MAJOR, ONCE_CLIENT_VERSION_MINOR,
                     ONCE_CLIENT_VERSION_PATCH);
#undef ONCE_DOTTED
#undef ONCE_TEXT
}

AttemptId AttemptId::Generate() {
  AttemptId id;
  FillRandom(id.bytes.data(), id.bytes.size());
  const auto millis = static_cast<uint64_t>(absl::ToUnixMillis(absl::Now()));
  for (int i = 0; i < 6; ++i) {
    id.bytes[static_cast<size_t>(i)] = static_cast<uint8_t>(millis >> (40 - 8 * i));
  }
  id.bytes[6] = static_cast<uint8_t>((id.bytes[6] & 0x0F) | 0x70);
  id.bytes[8] = static_cast<uint8_t>((id.bytes[8] & 0x3F) | 0x80);
  return id;
}

absl::StatusOr<AttemptId> AttemptId::Parse(absl::string_view text) {
  const absl::Status malformed = absl::InvalidArgumentError(
      absl::StrCat("an attempt id is 32 hexadecimal digits or a UUID, not ", text.size(),
                   " characters of another form"));
  if (text.size() != 32 && text.size() != 36) return malformed;
  AttemptId id;
  size_t digits = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.size() == 36 && IsHyphenPlace(i)) {
      if (text[i] != '-') return malformed;
      continue;
    }
    const int value = HexValue(text[i]);
    if (value < 0) return malformed;
    uint8_t& byte = id.bytes[digits / 2];
    byte = static_cast<uint8_t>(byte * 16 + value);
    ++digits;
  }
  return id;
}

std::string AttemptId::ToString() const {
  const std::string hex = absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  const absl::string_view h = hex;
  return absl::StrCat(h.substr(0, 8), "-", h.substr(8, 4), "-", h.substr(12, 4), "-",
                      h.substr(16, 4), "-", h.substr(20));
}

Digest Digest::OfRaw(absl::string_view bytes) {
  Digest digest;
  digest.scheme = DigestScheme::kRawSha256;
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.sha256.data());
  return digest;
}

std::string Digest::ToHex() const {
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(sha256.data()), sha256.size()));
}

absl::string_view ToString(InProgress::Reason reason) {
  switch (reason) {
    case InProgress::Reason::kHeld:
      break;
    case InProgress::Reason::kDelayed:
      return "DELAYED";
    case InProgress::Reason::kAggregateBusy:
      return "AGGREGATE_BUSY";
  }
  return "HELD";
}

absl::string_view ToString(DigestScheme value) {
  switch (value) {
    case DigestScheme::kHandlerDefault:
      return "HANDLER_DEFAULT";
    case DigestScheme::kRawSha256:
      return "RAW_SHA256";
    case DigestScheme::kJsonJcsSha256:
      return "JSON_JCS_SHA256";
  }
  return "";
}

absl::string_view ToString(DeliverySource value) {
  switch (value) {
    case DeliverySource::kUnknown:
      return "UNKNOWN";
    case DeliverySource::kFirst:
      return "FIRST";
    case DeliverySource::kRedelivery:
      return "REDELIVERY";
    case DeliverySource::kDeadLetter:
      return "DEAD_LETTER";
    case DeliverySource::kCompensation:
      return "COMPENSATION";
    case DeliverySource::kReplay:
      return "REPLAY";
  }
  return "";
}

absl::string_view ToString(ReceiptStatus value) {
  switch (value) {
    case ReceiptStatus::kSucceeded:
      return "SUCCEEDED";
    case ReceiptStatus::kRejected:
      return "REJECTED";
  }
  return "";
}

absl::string_view ToString(OperationState value) {
  switch (value) {
    case OperationState::kClaimed:
      return "CLAIMED";
    case OperationState::kLapsed:
      return "LAPSED";
    case OperationState::kInDoubt:
      return "IN_DOUBT";
    case OperationState::kReleased:
      return "RELEASED";
    case OperationState::kCompleted:
      return "COMPLETED";
    case OperationState::kTombstone:
      return "TOMBSTONE";
  }
  return "";
}

}  // namespace once
