#include "render.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <variant>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "input.h"
#include "once/error.h"

namespace once::cli {
namespace {

std::string Text(absl::Time time) {
  return absl::FormatTime(absl::RFC3339_full, time, absl::UTCTimeZone());
}

double Seconds(absl::Duration duration) {
  return absl::ToDoubleSeconds(absl::Trunc(duration, absl::Milliseconds(1)));
}

bool IsUtf8(const std::string& bytes) {
  // nlohmann's own check is the one that counts: it is what would refuse the text.
  try {
    Json(bytes).dump();
    return true;
  } catch (const Json::exception&) {
    return false;
  }
}

std::string Lower(absl::string_view name) { return absl::AsciiStrToLower(name); }

void Put(Json& json, const char* name, const std::optional<Digest>& digest) {
  if (!digest.has_value()) return;
  json[name] = {{"scheme", ToString(digest->scheme)}, {"sha256", digest->ToHex()}};
}

Json ToJson(const Claim& claim) {
  return {{"attempt_id", claim.attempt_id.ToString()},
          {"fence", claim.fence.value},
          {"lease_remaining", Seconds(claim.lease_remaining)},
          {"lease_expire_time", Text(claim.lease_expire_time)}};
}

Json ToJson(const EarlierAttempt& attempt) {
  return {{"attempt_id", attempt.attempt_id.ToString()},
          {"fence", attempt.fence.value},
          {"consumer", attempt.consumer},
          {"handler_version", attempt.handler_version},
          {"begin_time", Text(attempt.begin_time)},
          {"lease_expire_time", Text(attempt.lease_expire_time)}};
}

Json ToJson(const Receipt& receipt) {
  Json json = {{"status", ToString(receipt.status)}};
  if (receipt.result_omitted) {
    json["result_omitted"] = true;
  } else if (IsUtf8(receipt.result)) {
    json["result"] = receipt.result;
  } else {
    json["result_base64"] = absl::Base64Escape(receipt.result);
  }
  json["result_size"] = receipt.result_size;
  json["content_type"] = receipt.content_type;
  json["handler_version"] = receipt.handler_version;
  json["complete_time"] = Text(receipt.complete_time);
  json["fence"] = receipt.fence.value;
  return json;
}

struct Describe {
  Json operator()(const Granted& granted) const {
    Json json = {{"outcome", "granted"}, {"claim", ToJson(granted.claim)}};
    json["attempt_number"] = granted.attempt_number;
    if (granted.recovery) json["recovery"] = true;
    if (granted.earlier_attempt.has_value()) {
      json["earlier_attempt"] = ToJson(*granted.earlier_attempt);
      json["earlier_attempt"]["outcome"] = "unknown";
    }
    return json;
  }
  Json operator()(const Completed& completed) const {
    Json json = {{"outcome", "completed"},
                 {"replayed", completed.replayed},
                 {"receipt", ToJson(completed.receipt)}};
    if (completed.dedupe_guaranteed_until_time.has_value()) {
      json["dedupe_guaranteed_until_time"] = Text(*completed.dedupe_guaranteed_until_time);
    }
    return json;
  }
  Json operator()(const InProgress& in_progress) const {
    Json json = {{"outcome", "in_progress"},
                 {"reason", ToString(in_progress.reason)},
                 {"consumer", in_progress.consumer},
                 {"handler_version", in_progress.handler_version},
                 {"lease_remaining", Seconds(in_progress.lease_remaining)},
                 {"suggested_wait", Seconds(in_progress.suggested_wait)},
                 {"begin_time", Text(in_progress.begin_time)},
                 {"attempt_number", in_progress.attempt_number}};
    Put(json, "first_digest", in_progress.first_digest);
    if (!in_progress.blocking_event_id.empty()) {
      json["blocking_event_id"] = FormatEventId(in_progress.blocking_event_id);
    }
    return json;
  }
  Json operator()(const Conflict& conflict) const {
    const bool scheme = conflict.difference == Conflict::Difference::kDigestScheme;
    Json json = {{"outcome", "conflict"},
                 {"difference", scheme ? "DIGEST_SCHEME" : "DIGEST"},
                 {"state", ToString(conflict.state)},
                 {"consumer", conflict.consumer},
                 {"lease_remaining", Seconds(conflict.lease_remaining)},
                 {"first_begin_time", Text(conflict.first_begin_time)}};
    Put(json, "first_digest", conflict.first_digest);
    Put(json, "request_digest", conflict.request_digest);
    return json;
  }
  Json operator()(const InDoubt& in_doubt) const {
    Json json = {{"outcome", "in_doubt"},
                 {"earlier_attempt_count", in_doubt.earlier_attempt_count},
                 {"resolution", in_doubt.resolution}};
    if (in_doubt.probe_allowed) json["probe_allowed"] = true;
    json["earlier_attempts"] = Json::array();
    for (const auto& attempt : in_doubt.earlier_attempts) {
      json["earlier_attempts"].push_back(ToJson(attempt));
    }
    return json;
  }
  Json operator()(const Stale& stale) const {
    return {{"outcome", "stale"},
            {"aggregate", stale.current.id},
            {"current_version", stale.current.version},
            {"current_event_id", FormatEventId(stale.current_event_id)}};
  }
  Json operator()(const Expired& expired) const {
    return {{"outcome", "expired"},
            {"status", ToString(expired.status)},
            {"complete_time", Text(expired.complete_time)},
            {"handler_version", expired.handler_version}};
  }
  Json operator()(const Unclaimed& unclaimed) const {
    Json json = {{"outcome", "unclaimed"}, {"state", ToString(unclaimed.state)}};
    if (unclaimed.earlier_attempt.has_value()) {
      json["earlier_attempt"] = ToJson(*unclaimed.earlier_attempt);
      json["earlier_attempt"]["outcome"] = "unknown";
    }
    return json;
  }
  Json operator()(const ClaimLost& lost) const {
    Json json = {{"outcome", "claim_lost"},
                 {"state", ToString(lost.state)},
                 {"consumer", lost.consumer},
                 {"fence", lost.fence.value}};
    if (lost.take_over_time.has_value()) json["take_over_time"] = Text(*lost.take_over_time);
    return json;
  }
  Json operator()(const CompletionConflict& conflict) const {
    return {{"outcome", "conflict"}, {"receipt", ToJson(conflict.receipt)}};
  }
  Json operator()(const Abandoned& abandoned) const {
    return {{"outcome", "abandoned"},
            {"mode", abandoned.mode == AbandonMode::kForget ? "FORGET" : "RELEASE"}};
  }
  Json operator()(const Released&) const { return {{"outcome", "released"}}; }
  Json operator()(const Claim& claim) const {
    return {{"outcome", "renewed"}, {"claim", ToJson(claim)}};
  }
};

// Keeps UTF-8 readable; everything that a terminal would obey becomes \x…
std::string Safe(const std::string& text) {
  std::string safe;
  for (const char c : IsUtf8(text) ? text : absl::CHexEscape(text)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) {
      absl::StrAppend(&safe, "\\x", absl::Hex(byte, absl::kZeroPad2));
    } else {
      safe.push_back(c);
    }
  }
  // C1 controls, which UTF-8 writes in two bytes.
  std::string out;
  for (size_t i = 0; i < safe.size(); ++i) {
    const auto byte = static_cast<unsigned char>(safe[i]);
    const auto next = i + 1 < safe.size() ? static_cast<unsigned char>(safe[i + 1]) : 0U;
    if (byte == 0xC2 && next >= 0x80 && next < 0xA0) {
      absl::StrAppend(&out, "\\x", absl::Hex(next, absl::kZeroPad2));
      ++i;
    } else {
      out.push_back(safe[i]);
    }
  }
  return out;
}

std::string Label(const std::string& name) { return absl::StrReplaceAll(name, {{"_", " "}}); }

std::string Scalar(const Json& json) {
  return json.is_string() ? Safe(json.get<std::string>()) : json.dump();
}

void Write(const Json& json, const std::string& indent, std::string& out) {
  for (const auto& [name, value] : json.items()) {
    if (value.is_object()) {
      absl::StrAppend(&out, indent, Label(name), ":\n");
      Write(value, indent + "  ", out);
    } else if (value.is_array() && !value.empty() && value.front().is_object()) {
      for (const Json& item : value) {
        absl::StrAppend(&out, indent, Label(name), ":\n");
        Write(item, indent + "  ", out);
      }
    } else if (value.is_array()) {
      absl::StrAppend(
          &out, indent, Label(name), ": ",
          absl::StrJoin(value, " ",
                        [](std::string* text, const Json& item) { text->append(Scalar(item)); }),
          "\n");
    } else if (!(value.is_string() && value.get_ref<const std::string&>().empty())) {
      absl::StrAppend(&out, indent, Label(name), ": ", Scalar(value), "\n");
    }
  }
}

// Cells are escaped; the last column is not padded.
std::string Table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line.append(widths[i] - row[i].size() + 2, ' ');
    }
    out += line;
    out += '\n';
  }
  return out;
}

std::string StateOf(const Credential& credential) {
  if (credential.revoke_time.has_value()) return "revoked " + Text(*credential.revoke_time);
  if (credential.expire_time.has_value()) return "until " + Text(*credential.expire_time);
  return "active";
}

}  // namespace

Json ToJson(const BeginOutcome& outcome) { return std::visit(Describe{}, outcome); }
Json ToJson(const CompleteOutcome& outcome) { return std::visit(Describe{}, outcome); }
Json ToJson(const AbandonOutcome& outcome) { return std::visit(Describe{}, outcome); }
Json ToJson(const RenewOutcome& outcome) { return std::visit(Describe{}, outcome); }
Json ToJson(const LookupOutcome& outcome) { return std::visit(Describe{}, outcome); }

Json ToJson(const ResolveOutcome& outcome) { return std::visit(Describe{}, outcome); }
Json ToJson(const ResetOutcome& outcome) { return std::visit(Describe{}, outcome); }

Json ToJson(const Operation& operation) {
  Json json = {{"handler", operation.id.handler},
               {"event_id", FormatEventId(operation.id.event_id)},
               {"state", ToString(operation.state)}};
  Put(json, "digest", operation.digest);
  json["first_begin_time"] = Text(operation.first_begin_time);
  json["delivery_count"] = operation.delivery_count;
  json["attempt_number"] = operation.attempt_number;
  json["latest_claim"] = ToJson(operation.latest_claim);
  if (operation.lease_remaining.has_value()) {
    json["lease_remaining"] = Seconds(*operation.lease_remaining);
  }
  if (operation.earlier_attempt.has_value()) {
    json["earlier_attempt"] = ToJson(*operation.earlier_attempt);
    json["earlier_attempt_count"] = operation.earlier_attempt_count;
  }
  if (operation.receipt.has_value()) json["receipt"] = ToJson(*operation.receipt);
  for (const PastReceipt& past : operation.past_receipts) {
    json["past_receipts"].push_back({{"reset_time", Text(past.reset_time)},
                                     {"credential_id", past.credential_id},
                                     {"reason", past.reason},
                                     {"attempt_id", past.attempt_id.ToString()},
                                     {"receipt", ToJson(past.receipt)}});
  }
  return json;
}

Json ToJson(const LoggedAttempt& attempt) {
  Json json = {{"log_time", Text(attempt.log_time)},
               {"kind", attempt.kind},
               {"outcome", attempt.outcome},
               {"attempt_id", attempt.attempt_id.ToString()},
               {"fence", attempt.fence.value},
               {"attempt_number", attempt.attempt_number},
               {"consumer", attempt.consumer},
               {"handler_version", attempt.handler_version},
               {"note", attempt.note}};
  Put(json, "digest", attempt.digest);
  if (attempt.delivery.has_value()) {
    json["delivery"] = {{"reference", attempt.delivery->reference},
                        {"source", ToString(attempt.delivery->source)}};
  }
  if (attempt.causation.has_value()) {
    json["causation"] = {{"handler", attempt.causation->operation.handler},
                         {"event_id", FormatEventId(attempt.causation->operation.event_id)},
                         {"reason", attempt.causation->reason}};
  }
  if (attempt.aggregate.has_value()) {
    json["aggregate"] = {{"id", attempt.aggregate->id}, {"version", attempt.aggregate->version}};
  }
  return json;
}

Json ToJson(const Tenant& tenant) {
  return {{"name", tenant.name}, {"create_time", Text(tenant.create_time)}};
}

Json ToJson(const Credential& credential) {
  Json json = {{"credential_id", credential.credential_id},
               {"tenant", credential.tenant},
               {"role", Lower(ToString(credential.role))},
               {"handler_patterns", credential.handler_patterns},
               {"description", credential.description},
               {"create_time", Text(credential.create_time)}};
  if (credential.expire_time.has_value()) json["expire_time"] = Text(*credential.expire_time);
  if (credential.revoke_time.has_value()) json["revoke_time"] = Text(*credential.revoke_time);
  return json;
}

Json ToJson(const PolicyVersion& version) {
  return {{"version", version.version},
          {"credential_id", version.credential_id},
          {"reason", version.reason},
          {"create_time", Text(version.create_time)}};
}

Json ToJson(const AuditRecord& record) {
  return {{"record_id", record.record_id},
          {"tenant", record.tenant},
          {"action", ToString(record.action)},
          {"subject", record.subject},
          {"before", record.before},
          {"after", record.after},
          {"credential_id", record.credential_id},
          {"reason", record.reason},
          {"create_time", Text(record.create_time)}};
}

Json ErrorToJson(const absl::Status& status) {
  const ErrorInfo info = ErrorInfoOf(status);
  Json error = {{"code", absl::StatusCodeToString(status.code())},
                {"reason", info.reason_name},
                {"message", std::string(status.message())}};
  if (!info.metadata.empty()) error["metadata"] = info.metadata;
  if (info.retry_delay.has_value()) error["retry_delay"] = Seconds(*info.retry_delay);
  for (const auto& violation : info.field_violations) {
    error["field_violations"].push_back(
        {{"field", violation.field}, {"description", violation.description}});
  }
  return {{"error", std::move(error)}};
}

std::string JsonText(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string HumanText(const Json& json) {
  std::string out;
  Json rest = json;
  if (rest.contains("outcome")) {
    out = rest["outcome"].get<std::string>() + "\n";
    rest.erase("outcome");
  }
  Write(rest, out.empty() ? "" : "  ", out);
  return out;
}

std::string ErrorText(const absl::Status& status) {
  const ErrorInfo info = ErrorInfoOf(status);
  const std::string what =
      info.reason_name.empty() ? absl::StatusCodeToString(status.code()) : info.reason_name;
  std::string out = absl::StrCat(Safe(what), ": ", Safe(std::string(status.message())), "\n");
  for (const auto& [name, value] : info.metadata) {
    absl::StrAppend(&out, "  ", Label(Safe(name)), ": ", Safe(value), "\n");
  }
  for (const auto& violation : info.field_violations) {
    if (info.metadata.count("field") > 0) break;  // said already
    absl::StrAppend(&out, "  ", Safe(violation.field), ": ", Safe(violation.description), "\n");
  }
  if (info.retry_delay.has_value()) {
    absl::StrAppend(&out, "  retry after: ", absl::FormatDuration(*info.retry_delay), "\n");
  }
  return out;
}

std::string TenantTable(const std::vector<Tenant>& tenants) {
  std::vector<std::vector<std::string>> rows = {{"NAME", "CREATED"}};
  for (const auto& tenant : tenants) {
    rows.push_back({Safe(tenant.name), Text(tenant.create_time)});
  }
  return Table(rows);
}

std::string CredentialTable(const std::vector<Credential>& credentials) {
  std::vector<std::vector<std::string>> rows = {
      {"CREDENTIAL", "TENANT", "ROLE", "STATE", "HANDLERS", "DESCRIPTION"}};
  for (const auto& c : credentials) {
    rows.push_back({c.credential_id, Safe(c.tenant.empty() ? "-" : c.tenant),
                    Lower(ToString(c.role)), StateOf(c),
                    Safe(c.handler_patterns.empty() ? "-" : absl::StrJoin(c.handler_patterns, ",")),
                    Safe(c.description)});
  }
  return Table(rows);
}

std::string PolicyVersionTable(const std::vector<PolicyVersion>& versions) {
  std::vector<std::vector<std::string>> rows = {{"VERSION", "APPLIED", "BY", "REASON"}};
  for (const auto& version : versions) {
    rows.push_back({absl::StrCat(version.version), Text(version.create_time),
                    Safe(version.credential_id), Safe(version.reason)});
  }
  return Table(rows);
}

std::string AuditTable(const std::vector<AuditRecord>& records) {
  std::vector<std::vector<std::string>> rows = {
      {"TIME", "BY", "TENANT", "ACTION", "SUBJECT", "REASON"}};
  for (const auto& record : records) {
    rows.push_back({Text(record.create_time),
                    record.credential_id.empty() ? "onced" : Safe(record.credential_id),
                    Safe(record.tenant.empty() ? "-" : record.tenant),
                    Lower(ToString(record.action)), Safe(record.subject), Safe(record.reason)});
  }
  return Table(rows);
}

std::string AttemptTable(const std::vector<LoggedAttempt>& attempts) {
  std::vector<std::vector<std::string>> rows = {
      {"TIME", "CALL", "OUTCOME", "ATTEMPT", "FENCE", "CONSUMER", "DELIVERY", "NOTE"}};
  for (const auto& attempt : attempts) {
    std::string delivery = "-";
    if (attempt.delivery.has_value()) {
      delivery = absl::StrCat(Lower(ToString(attempt.delivery->source)), " ",
                              Safe(attempt.delivery->reference));
    }
    rows.push_back({Text(attempt.log_time), Lower(attempt.kind), Lower(attempt.outcome),
                    attempt.attempt_id.ToString(), absl::StrCat(attempt.fence.value),
                    Safe(attempt.consumer.empty() ? "-" : attempt.consumer), delivery,
                    Safe(attempt.note)});
  }
  return Table(rows);
}

std::string VersionLine(const PolicyVersion& version) {
  return absl::StrCat("by ", version.credential_id, " at ", Text(version.create_time), ": ",
                      version.reason);
}

std::string SafeText(const std::string& text) { return Safe(text); }

}  // namespace once::cli
