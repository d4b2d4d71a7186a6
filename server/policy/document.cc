#include "policy/document.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace once::policy {
namespace {

using Json = nlohmann::ordered_json;
using core::HandlerPolicy;

// Stored names; never rename.
template <typename Enum>
struct Name {
  Enum value;
  const char* name;
};
constexpr Name<core::Admission> kAdmissions[] = {{core::Admission::kAllowed, "allowed"},
                                                 {core::Admission::kRefused, "refused"}};
constexpr Name<core::LapsePolicy> kLapses[] = {{core::LapsePolicy::kRetry, "retry"},
                                               {core::LapsePolicy::kInDoubt, "in_doubt"},
                                               {core::LapsePolicy::kProbe, "probe"}};
constexpr Name<core::DigestScheme> kSchemes[] = {
    {core::DigestScheme::kRawSha256, "raw_sha256"},
    {core::DigestScheme::kJsonJcsSha256, "json_jcs_sha256"}};
constexpr Name<core::AttemptLog> kLogs[] = {{core::AttemptLog::kDurable, "durable"},
                                            {core::AttemptLog::kBuffered, "buffered"}};

// What both directions walk, so that they cannot differ: a visitor is given each field's name, its
// value and the names of its values.
template <typename Policy, typename Visitor>
void VisitFields(Policy& policy, Visitor& visit) {
  visit.Text("handler", policy.handler);
  visit.Choice("admission", policy.admission, kAdmissions);
  visit.Object("lease", [&](auto& inner) {
    inner.Time("normal_us", policy.lease.normal);
    inner.Time("least_us", policy.lease.least);
    inner.Time("greatest_us", policy.lease.greatest);
  });
  visit.Choice("on_lapse", policy.on_lapse, kLapses);
  visit.Object("digest", [&](auto& inner) {
    inner.Choice("scheme", policy.digest.scheme, kSchemes);
    inner.Texts("ignored_members", policy.digest.ignored_members);
  });
  visit.Choice("attempt_log", policy.attempt_log, kLogs);
  visit.Object("retention", [&](auto& inner) {
    inner.Time("receipt_us", policy.retention.receipt);
    inner.Time("dedupe_us", policy.retention.dedupe);
    inner.Time("broker_us", policy.retention.broker);
    inner.Time("dead_letter_us", policy.retention.dead_letter);
    inner.Time("backup_us", policy.retention.backup);
    inner.Time("manual_replay_us", policy.retention.manual_replay);
  });
  visit.Object("order", [&](auto& inner) {
    inner.Flag("guards_versions", policy.order.guards_versions);
    inner.Flag("one_at_a_time", policy.order.one_at_a_time);
  });
  visit.Texts("readable_versions", policy.readable_versions);
}

class Writer {
 public:
  explicit Writer(Json* json) : json_(*json) {}

  void Text(const char* name, const std::string& value) { json_[name] = value; }
  void Texts(const char* name, const std::vector<std::string>& values) {
    if (!values.empty()) json_[name] = values;
  }
  void Flag(const char* name, bool value) {
    if (value) json_[name] = true;
  }
  void Time(const char* name, absl::Duration value) {
    if (value != absl::ZeroDuration()) json_[name] = absl::ToInt64Microseconds(value);
  }
  void Time(const char* name, const std::optional<absl::Duration>& value) {
    if (value.has_value()) json_[name] = absl::ToInt64Microseconds(*value);
  }
  template <typename Enum, size_t N>
  void Choice(const char* name, Enum value, const Name<Enum> (&names)[N]) {
    if (value == names[0].value) return;  // the default
    Choice(name, std::optional<Enum>(value), names);
  }
  template <typename Enum, size_t N>
  void Choice(const char* name, std::optional<Enum> value, const Name<Enum> (&names)[N]) {
    for (const Name<Enum>& known : names) {
      if (value == known.value) json_[name] = known.name;
    }
  }
  template <typename Body>
  void Object(const char* name, Body body) {
    Json inner = Json::object();
    Writer writer(&inner);
    body(writer);
    if (!inner.empty()) json_[name] = std::move(inner);
  }

 private:
  Json& json_;
};

// Takes what it knows out of the object; what is left, or of another kind, is not known.
class Reader {
 public:
  explicit Reader(Json json) : json_(std::move(json)) { Expect(json_.is_object(), "policy"); }

  void Text(const char* name, std::string& value) {
    const Json json = Take(name);
    Expect(json.is_string(), name);
    if (json.is_string()) value = json.get<std::string>();
  }
  void Texts(const char* name, std::vector<std::string>& values) {
    const Json json = Take(name);
    if (json.is_null()) return;
    Expect(json.is_array(), name);
    for (const Json& item : json) {
      Expect(item.is_string(), name);
      if (item.is_string()) values.push_back(item.get<std::string>());
    }
  }
  void Flag(const char* name, bool& value) {
    const Json json = Take(name);
    if (json.is_null()) return;
    Expect(json.is_boolean(), name);
    if (json.is_boolean()) value = json.get<bool>();
  }
  template <typename Duration>  // or an optional one
  void Time(const char* name, Duration& value) {
    const Json json = Take(name);
    if (json.is_null()) return;
    Expect(json.is_number_integer(), name);
    if (json.is_number_integer()) value = absl::Microseconds(json.get<int64_t>());
  }
  template <typename Value, typename Enum, size_t N>  // Value: Enum, or an optional one
  void Choice(const char* name, Value& value, const Name<Enum> (&names)[N]) {
    const Json json = Take(name);
    if (json.is_null()) return;
    const auto known = std::find_if(std::begin(names), std::end(names),
                                    [&](const Name<Enum>& one) { return json == one.name; });
    Expect(known != std::end(names), name);
    if (known != std::end(names)) value = known->value;
  }
  template <typename Body>
  void Object(const char* name, Body body) {
    Json json = Take(name);
    if (json.is_null()) return;
    Reader inner(std::move(json));
    body(inner);
    Expect(inner.Finish().empty(), absl::StrCat(name, ".", inner.Finish()));
  }

  // The first member that was not known; empty where there is none.
  std::string Finish() {
    if (fault_.empty() && json_.is_object() && !json_.empty()) fault_ = json_.begin().key();
    return fault_;
  }

 private:
  Json Take(const char* name) {
    if (!json_.is_object() || !json_.contains(name)) return nullptr;
    Json value = std::move(json_[name]);
    json_.erase(name);
    return value;
  }
  void Expect(bool holds, absl::string_view what) {
    if (!holds && fault_.empty()) fault_ = std::string(what);
  }

  Json json_;
  std::string fault_;
};

absl::Status NotKnown(absl::string_view what) {
  return absl::FailedPreconditionError(
      absl::StrCat("stored policies hold what this program does not know (", what,
                   "): run a newer program, or one of the version that wrote them"));
}

}  // namespace

std::string WriteDocument(absl::Span<const HandlerPolicy> policies) {
  std::vector<HandlerPolicy> sorted(policies.begin(), policies.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.handler < b.handler; });
  Json document = Json::array();
  for (const HandlerPolicy& policy : sorted) {
    Json json = Json::object();
    Writer writer(&json);
    VisitFields(policy, writer);
    document.push_back(std::move(json));
  }
  return document.dump();
}

absl::StatusOr<std::vector<HandlerPolicy>> ReadDocument(absl::string_view document) {
  Json json = Json::parse(document, nullptr, /*allow_exceptions=*/false);
  if (!json.is_array()) return NotKnown("no array");
  std::vector<HandlerPolicy> policies;
  for (Json& item : json) {
    Reader reader(std::move(item));
    VisitFields(policies.emplace_back(), reader);
    if (const std::string fault = reader.Finish(); !fault.empty()) return NotKnown(fault);
  }
  return policies;
}

}  // namespace once::policy
