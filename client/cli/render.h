// What oncectl prints: for people, or as JSON for programs. Pure functions.
//
// JSON names follow the protocol's; times are RFC 3339, durations seconds with a fraction, event
// ids as the command line takes them; a result is text where it is UTF-8 and base64
// (`result_base64`) where it is not.
#ifndef ONCE_CLIENT_CLI_RENDER_H_
#define ONCE_CLIENT_CLI_RENDER_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "once/admin.h"
#include "once/operator.h"
#include "once/outcomes.h"

namespace once::cli {

using Json = nlohmann::ordered_json;

Json ToJson(const BeginOutcome& outcome);
Json ToJson(const CompleteOutcome& outcome);
Json ToJson(const AbandonOutcome& outcome);
Json ToJson(const RenewOutcome& outcome);
Json ToJson(const LookupOutcome& outcome);
Json ToJson(const ResolveOutcome& outcome);
Json ToJson(const ResetOutcome& outcome);
Json ToJson(const Operation& operation);
Json ToJson(const LoggedAttempt& attempt);
Json ToJson(const Tenant& tenant);
Json ToJson(const Credential& credential);
Json ToJson(const PolicyVersion& version);
Json ToJson(const AuditRecord& record);
Json ErrorToJson(const absl::Status& status);

// One line.
std::string JsonText(const Json& json);

// Indented "name: value" lines from the JSON form, so that both say the same. An "outcome" comes
// first, by itself. Bytes that would steer a terminal are escaped.
std::string HumanText(const Json& json);

// "REASON: message" and an indented line for each value that the message mentions.
std::string ErrorText(const absl::Status& status);

// Aligned columns.
std::string TenantTable(const std::vector<Tenant>& tenants);
std::string CredentialTable(const std::vector<Credential>& credentials);
std::string PolicyVersionTable(const std::vector<PolicyVersion>& versions);
std::string AuditTable(const std::vector<AuditRecord>& records);
std::string AttemptTable(const std::vector<LoggedAttempt>& attempts);

// "by CREDENTIAL at TIME: REASON"
std::string VersionLine(const PolicyVersion& version);

// Without bytes that would steer a terminal.
std::string SafeText(const std::string& text);

}  // namespace once::cli

#endif  // ONCE_CLIENT_CLI_RENDER_H_
