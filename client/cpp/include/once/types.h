// The vocabulary of Once as plain values: names for everything two of which could be swapped.
//
// All types here are copyable values, thread-compatible, own what they hold, and have no invariants
// beyond their types: the server checks limits and names the field that breaks one. Times are the
// database's clock, for logs and people; only `Claim::lease_remaining` may be used to measure with.
#ifndef ONCE_TYPES_H_
#define ONCE_TYPES_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace once {

// One business action. The tenant comes from the credential. The same event handled by two handlers
// is two operations.
struct OperationId {
  // 1–128 bytes of [A-Za-z0-9._:/-].
  std::string handler;
  // 1–255 bytes, any values, compared byte for byte. Fixed when the fact first happened; not the
  // broker's message id.
  std::string event_id;

  friend bool operator==(const OperationId& a, const OperationId& b) {
    return a.handler == b.handler && a.event_id == b.event_id;
  }
  friend bool operator!=(const OperationId& a, const OperationId& b) { return !(a == b); }
};

// A consumer's try at an operation. Make one per logical try and keep it over transport retries; a
// consumer that stores it before it begins may restart and go on with the same claim.
struct AttemptId {
  std::array<uint8_t, 16> bytes{};

  // A new UUIDv7: 48 bits of time, 74 bits from the operating system's random source. Blocks only
  // where that source does (early boot).
  static AttemptId Generate();

  // From 32 hexadecimal digits, with or without the four hyphens of a UUID.
  // INVALID_ARGUMENT: anything else.
  static absl::StatusOr<AttemptId> Parse(absl::string_view text);

  // As a lower-case UUID.
  std::string ToString() const;

  friend bool operator==(const AttemptId& a, const AttemptId& b) { return a.bytes == b.bytes; }
  friend bool operator!=(const AttemptId& a, const AttemptId& b) { return !(a == b); }
};

// Grows with each new claim of an operation. Write it beside the business effect.
struct Fence {
  int64_t value = 0;

  friend bool operator==(Fence a, Fence b) { return a.value == b.value; }
  friend bool operator!=(Fence a, Fence b) { return a.value != b.value; }
  friend bool operator<(Fence a, Fence b) { return a.value < b.value; }
};

// In which form content is digested. Digests of different schemes never compare equal.
enum class DigestScheme {
  kHandlerDefault,  // never in an answer
  kRawSha256,       // the bytes as they are
  kJsonJcsSha256,   // canonical JSON (RFC 8785): member order and white space do not count
};

// What the request is about. The server digests it and does not store it. At most 1 MiB by default.
struct Content {
  std::string data;
  DigestScheme scheme = DigestScheme::kHandlerDefault;

  static Content Raw(std::string bytes) { return {std::move(bytes), DigestScheme::kRawSha256}; }
  static Content Json(std::string text) { return {std::move(text), DigestScheme::kJsonJcsSha256}; }
};

// A digest that the caller made, or that the server reports.
struct Digest {
  DigestScheme scheme = DigestScheme::kRawSha256;
  std::array<uint8_t, 32> sha256{};

  // SHA-256 of the bytes, for consumers whose content should not leave them or is too large.
  static Digest OfRaw(absl::string_view bytes);

  // Lower-case hexadecimal, 64 digits.
  std::string ToHex() const;

  friend bool operator==(const Digest& a, const Digest& b) {
    return a.scheme == b.scheme && a.sha256 == b.sha256;
  }
  friend bool operator!=(const Digest& a, const Digest& b) { return !(a == b); }
};

using Payload = std::variant<Content, Digest>;

enum class DeliverySource {
  kUnknown,
  kFirst,
  kRedelivery,
  kDeadLetter,
  kCompensation,
  kReplay,
};

// The message being handled, for the attempt log. Takes part in no decision.
struct Delivery {
  std::string reference;  // the broker's own id or offset, at most 255 bytes
  DeliverySource source = DeliverySource::kUnknown;
};

// The operation that led to this one, for the attempt log.
struct Causation {
  OperationId operation;
  std::string reason;  // for people, at most 255 bytes
};

// The business object that the operation changes, and the version that it leads to.
struct Aggregate {
  std::string id;  // 1–255 bytes
  int64_t version = 0;
};

enum class ReceiptStatus {
  kSucceeded,
  kRejected,  // refused for good, for a business reason
};

enum class OperationState {
  kClaimed,
  kLapsed,   // the last claim's lease ran out, nobody took over, its outcome is unknown
  kInDoubt,  // as kLapsed, and the handler's policy forbids a second run
  kReleased,
  kCompleted,
  kTombstone,  // the receipt's body is gone; execution is still blocked
};

// Names as in the protocol, without their prefix: "SUCCEEDED", "IN_DOUBT", …
absl::string_view ToString(DigestScheme value);
absl::string_view ToString(DeliverySource value);
absl::string_view ToString(ReceiptStatus value);
absl::string_view ToString(OperationState value);

// The right to execute, held by one attempt.
struct Claim {
  AttemptId attempt_id;
  Fence fence;
  // How long the claim is live without renewal. Measure it with a monotonic clock from before the
  // request was sent; `Client::Execute` does.
  absl::Duration lease_remaining;
  absl::Time lease_expire_time;
};

// An attempt whose lease ran out without a word: nobody but your business data knows what it did.
struct EarlierAttempt {
  AttemptId attempt_id;
  Fence fence;
  std::string consumer;
  std::string handler_version;
  absl::Time begin_time;
  absl::Time lease_expire_time;
};

// The immutable result of an operation.
struct Receipt {
  ReceiptStatus status = ReceiptStatus::kSucceeded;
  std::string result;
  std::string content_type;
  std::string handler_version;
  absl::Time complete_time;
  Fence fence;
  int64_t result_size = 0;
  // True where a batch answer left `result` out because all answers together would have been too
  // large. Ask `Client::Lookup` for this operation.
  bool result_omitted = false;
};

}  // namespace once

#endif  // ONCE_TYPES_H_
