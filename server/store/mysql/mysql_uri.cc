#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "store/mysql/mysql_store.h"

namespace once::store {
namespace {

constexpr absl::string_view kScheme = "mysql://";
constexpr size_t kMaxDatabaseBytes = 64;

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool PercentDecode(absl::string_view in, std::string& out) {
  out.clear();
  for (size_t i = 0; i < in.size(); ++i) {
    if (in[i] != '%') {
      out.push_back(in[i]);
      continue;
    }
    if (i + 2 >= in.size() || HexValue(in[i + 1]) < 0 || HexValue(in[i + 2]) < 0) return false;
    out.push_back(static_cast<char>(HexValue(in[i + 1]) * 16 + HexValue(in[i + 2])));
    i += 2;
  }
  return true;
}

class UriParser {
 public:
  absl::StatusOr<MysqlOptions> Parse(absl::string_view uri) {
    if (!absl::ConsumePrefix(&uri, kScheme)) {
      return absl::InvalidArgumentError(
          "a MySQL URI looks like mysql://user@host:3306/database?tls=verify-identity");
    }
    const std::pair<absl::string_view, absl::string_view> query =
        absl::StrSplit(uri, absl::MaxSplits('?', 1));
    const std::pair<absl::string_view, absl::string_view> path =
        absl::StrSplit(query.first, absl::MaxSplits('/', 1));
    ParseAuthority(path.first);
    ParseDatabase(path.second);
    if (!query.second.empty()) ParseParameters(query.second);
    CheckTls();
    if (!faults_.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("MySQL URI: ", absl::StrJoin(faults_, "; ")));
    }
    return std::move(options_);
  }

 private:
  void Fault(absl::string_view what) { faults_.emplace_back(what); }

  void ParseAuthority(absl::string_view authority) {
    const size_t at = authority.rfind('@');
    if (at == absl::string_view::npos) {
      Fault("the user is missing (mysql://user@host/database)");
    } else {
      ParseUser(authority.substr(0, at));
      authority.remove_prefix(at + 1);
    }
    for (const absl::string_view host : absl::StrSplit(authority, ',')) {
      ParseHost(host);
    }
  }

  void ParseUser(absl::string_view user) {
    if (absl::StrContains(user, ':')) {
      // URIs end up in process lists and logs.
      Fault(
          "it must not contain a password; put it into a file and name that with "
          "--mysql-password-file");
      return;
    }
    if (!PercentDecode(user, options_.user) || options_.user.empty()) {
      Fault("the user is empty or wrongly percent-encoded");
    }
  }

  void ParseHost(absl::string_view text) {
    HostPort host;
    absl::string_view port;
    if (absl::ConsumePrefix(&text, "[")) {
      const size_t end = text.find(']');
      if (end != absl::string_view::npos) {
        host.host = std::string(text.substr(0, end));
        port = text.substr(end + 1);
      }
    } else {
      const size_t colon = text.find(':');
      host.host = std::string(text.substr(0, colon));
      if (colon != absl::string_view::npos) port = text.substr(colon);
    }
    if (!port.empty()) {
      uint32_t number = 0;
      if (!absl::ConsumePrefix(&port, ":") || !absl::SimpleAtoi(port, &number) || number == 0 ||
          number > 65535) {
        Fault(absl::StrCat("the port of host \"", host.host, "\" is no number from 1 to 65535"));
        return;
      }
      host.port = static_cast<uint16_t>(number);
    }
    const bool valid = std::all_of(host.host.begin(), host.host.end(), [](char c) {
      return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("-._:%", c);
    });
    if (host.host.empty() || !valid) {
      Fault("a host is empty or has characters that host names do not have");
      return;
    }
    options_.hosts.push_back(std::move(host));
  }

  void ParseDatabase(absl::string_view database) {
    const bool valid = std::all_of(database.begin(), database.end(), [](char c) {
      return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("_-$", c);
    });
    if (database.empty() || database.size() > kMaxDatabaseBytes || !valid) {
      Fault("the database must be named after the host, with 1 to 64 of [A-Za-z0-9_$-]");
      return;
    }
    options_.database = std::string(database);
  }

  void ParseParameters(absl::string_view query) {
    for (const absl::string_view parameter : absl::StrSplit(query, '&')) {
      const std::pair<absl::string_view, absl::string_view> parts =
          absl::StrSplit(parameter, absl::MaxSplits('=', 1));
      std::string value;
      if (!PercentDecode(parts.second, value) || value.empty()) {
        Fault(absl::StrCat("the parameter \"", parts.first,
                           "\" has no value or a wrongly encoded one"));
      } else {
        SetParameter(parts.first, value);
      }
    }
  }

  void SetParameter(absl::string_view name, const std::string& value) {
    if (name == "tls") {
      ParseTlsMode(value);
    } else if (name == "tls-ca") {
      options_.tls.ca = value;
    } else if (name == "tls-cert") {
      options_.tls.cert = value;
    } else if (name == "tls-key") {
      options_.tls.key = value;
    } else if (name == "server-public-key") {
      options_.server_public_key = value;
    } else if (name == "password") {
      Fault(
          "it must not contain a password; put it into a file and name that with "
          "--mysql-password-file");
    } else {
      Fault(absl::StrCat("unknown parameter \"", name,
                         "\"; known are tls, tls-ca, tls-cert, tls-key, server-public-key"));
    }
  }

  void ParseTlsMode(absl::string_view value) {
    tls_named_ = true;
    if (value == "disabled") {
      options_.tls.mode = MysqlTlsMode::kDisabled;
    } else if (value == "required") {
      options_.tls.mode = MysqlTlsMode::kRequired;
    } else if (value == "verify-ca") {
      Fault(
          "tls=verify-ca is not offered, since the client library cannot insist on it; say "
          "verify-identity");
    } else if (value == "verify-identity") {
      options_.tls.mode = MysqlTlsMode::kVerifyIdentity;
    } else {
      Fault(absl::StrCat("tls=", value, " is none of disabled, required, verify-identity"));
    }
  }

  // A setting that would silently do nothing is a mistake.
  void CheckTls() {
    MysqlTls& tls = options_.tls;
    const bool has_files = !tls.ca.empty() || !tls.cert.empty() || !tls.key.empty();
    if (has_files && !tls_named_) {
      tls.mode = MysqlTlsMode::kVerifyIdentity;
      if (tls.ca.empty()) Fault("tls-cert and tls-key need tls=required or verify-identity");
    }
    if (has_files && tls.mode == MysqlTlsMode::kDisabled)
      Fault("tls=disabled, but TLS files are named");
    if (tls.mode == MysqlTlsMode::kRequired && !tls.ca.empty()) {
      Fault("tls=required verifies nothing; with tls-ca say verify-identity");
    }
    if (tls.cert.empty() != tls.key.empty()) Fault("tls-cert and tls-key go together");
  }

  MysqlOptions options_;
  std::vector<std::string> faults_;
  bool tls_named_ = false;
};

}  // namespace

std::string ToString(const HostPort& host) {
  return absl::StrContains(host.host, ':') ? absl::StrCat("[", host.host, "]:", host.port)
                                           : absl::StrCat(host.host, ":", host.port);
}

absl::StatusOr<MysqlOptions> ParseMysqlUri(absl::string_view uri) { return UriParser().Parse(uri); }

}  // namespace once::store
