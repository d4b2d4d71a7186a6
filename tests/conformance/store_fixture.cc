#include "conformance/store_fixture.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace once::conformance {
namespace {

int64_t Number(const std::optional<std::string>& value) {
  int64_t number = 0;
  return value.has_value() && absl::SimpleAtoi(*value, &number) ? number : -1;
}

template <size_t N>
void CopyBytes(const std::optional<std::string>& value, std::array<uint8_t, N>& to) {
  if (value.has_value() && value->size() == N) {
    std::copy(value->begin(), value->end(), to.begin());
  }
}

LoggedAttempt ReadAttempt(const core::OperationKey& key, const SqlRow& row) {
  LoggedAttempt attempt;
  store::AttemptEntry& entry = attempt.entry;
  entry.key = key;
  CopyBytes(row[0], entry.entry);
  CopyBytes(row[1], entry.attempt.bytes);
  entry.kind = static_cast<store::AttemptKind>(Number(row[2]));
  entry.outcome = static_cast<store::AttemptOutcome>(Number(row[3]));
  entry.fence = {Number(row[4])};
  entry.attempt_number = static_cast<int32_t>(Number(row[5]));
  if (row[6].has_value()) {
    entry.digest.emplace();
    entry.digest->scheme = static_cast<core::DigestScheme>(Number(row[6]));
    CopyBytes(row[7], entry.digest->sha256);
  }
  entry.consumer = row[8].value_or("");
  entry.handler_version = row[9].value_or("");
  entry.note = row[10].value_or("");
  entry.delivery.reference = row[11].value_or("");
  entry.delivery.source = static_cast<uint8_t>(Number(row[12]));
  entry.delivery.cause_handler = row[13].value_or("");
  entry.delivery.cause_event_id = row[14].value_or("");
  entry.delivery.cause_reason = row[15].value_or("");
  entry.delivery.aggregate_id = row[16].value_or("");
  entry.delivery.aggregate_version = row[17].has_value() ? Number(row[17]) : 0;
  attempt.logged = {Number(row[18])};
  return attempt;
}

}  // namespace

std::string SqlBytes(absl::string_view bytes) {
  return absl::StrCat("x'", absl::BytesToHexString(bytes), "'");
}

std::string SqlKey(const core::OperationKey& key) {
  return absl::StrCat("tenant_id = ", key.tenant.value, " AND handler_id = ", key.handler.value,
                      " AND event_id = ", SqlBytes(key.event_id));
}

absl::StatusOr<std::vector<LoggedAttempt>> StoreUnderTest::Attempts(const core::OperationKey& key) {
  absl::StatusOr<std::vector<SqlRow>> rows = Sql(absl::StrCat(
      "SELECT entry_id, attempt_id, kind, outcome, fence, attempt_number, digest_scheme, digest,"
      " consumer, handler_version, note, delivery_reference, delivery_source, cause_handler,"
      " cause_event_id, cause_reason, aggregate_id, aggregate_version, logged_us"
      " FROM attempt WHERE ",
      SqlKey(key), " ORDER BY entry_id"));
  if (!rows.ok()) return rows.status();
  std::vector<LoggedAttempt> attempts;
  for (const SqlRow& row : *rows) {
    attempts.push_back(ReadAttempt(key, row));
  }
  return attempts;
}

absl::Status StoreUnderTest::MoveBack(const core::OperationKey& key, absl::Duration by) {
  const int64_t micros = absl::ToInt64Microseconds(by);
  return Sql(absl::StrCat("UPDATE operation SET claimed_us = claimed_us - ", micros,
                          ", lease_expires_us = lease_expires_us - ", micros,
                          ", first_seen_us = first_seen_us - ", micros,
                          ", completed_us = completed_us - ", micros, " WHERE ", SqlKey(key)))
      .status();
}

absl::Status StoreUnderTest::MakeTombstone(const core::OperationKey& key) {
  absl::Status status =
      Sql(absl::StrCat("UPDATE operation SET state = 4, result = NULL WHERE ", SqlKey(key)))
          .status();
  status.Update(Sql(absl::StrCat("DELETE FROM receipt_body WHERE ", SqlKey(key))).status());
  return status;
}

}  // namespace once::conformance
