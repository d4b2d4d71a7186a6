#include "store/mysql/errors.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace once::store::mysql {
namespace {

// Client library errors: all of them mean that this connection is over, but for the few that are
// our own mistakes.
bool IsClientError(int code) { return code >= 2000 && code < 3000; }

ErrorKind KindOfServerError(const NativeError& error) {
  switch (error.code) {
    case 1022:  // ER_DUP_KEY
    case 1062:  // ER_DUP_ENTRY
    case 1586:  // ER_DUP_ENTRY_WITH_KEY_NAME
      return ErrorKind::kDuplicate;

    case 1020:  // ER_CHECKREAD: record has changed (innodb_snapshot_isolation)
    case 1180:  // ER_ERROR_DURING_COMMIT
    case 1205:  // ER_LOCK_WAIT_TIMEOUT
    case 1213:  // ER_LOCK_DEADLOCK; certification failure on Galera
    case 1317:  // ER_QUERY_INTERRUPTED: KILL QUERY
    case kMaxPreparedStatementsReached:
    case 1615:  // ER_NEED_REPREPARE
    case 1637:  // ER_TOO_MANY_CONCURRENT_TRXS
    case 1969:  // ER_STATEMENT_TIMEOUT (MariaDB)
    case 3024:  // ER_QUERY_TIMEOUT (MySQL)
    case 3058:  // ER_USER_LOCK_DEADLOCK
    case 3101:  // ER_TRANSACTION_ROLLBACK_DURING_COMMIT: certification failure under Group
                // Replication
    case 3572:  // ER_LOCK_NOWAIT
      return ErrorKind::kRetry;

    case 1037:  // ER_OUTOFMEMORY
    case 1038:  // ER_OUT_OF_SORTMEMORY
    case 1040:  // ER_CON_COUNT_ERROR
    case 1041:  // ER_OUT_OF_RESOURCES
    case 1042:  // ER_BAD_HOST_ERROR
    case 1043:  // ER_HANDSHAKE_ERROR
    case 1047:  // ER_UNKNOWN_COM_ERROR: a Galera node outside the primary component
    case 1053:  // ER_SERVER_SHUTDOWN
    case 1077:  // ER_NORMAL_SHUTDOWN
    case 1079:  // ER_SHUTDOWN_COMPLETE
    case 1080:  // ER_FORCING_CLOSE
    case 1081:  // ER_IPSOCK_ERROR
    case 1114:  // ER_RECORD_FILE_FULL: space comes back, or another host has some
    case 1129:  // ER_HOST_IS_BLOCKED
    case 1135:  // ER_CANT_CREATE_THREAD
    case 1152:  // ER_ABORTING_CONNECTION
    case 1158:  // ER_NET_READ_ERROR
    case 1159:  // ER_NET_READ_INTERRUPTED
    case 1160:  // ER_NET_ERROR_ON_WRITE
    case 1161:  // ER_NET_WRITE_INTERRUPTED
    case 1184:  // ER_NEW_ABORTING_CONNECTION
    case 1203:  // ER_TOO_MANY_USER_CONNECTIONS
    case 1226:  // ER_USER_LIMIT_REACHED
    case 1243:  // ER_UNKNOWN_STMT_HANDLER: behind a proxy, another session
    case 1927:  // ER_CONNECTION_KILLED (MariaDB)
    case 3032:  // ER_SERVER_OFFLINE_MODE
    case 3100:  // ER_RUN_HOOK_ERROR: Group Replication cannot take the transaction
    case 3168:  // ER_SERVER_ISNT_AVAILABLE
    case 3169:  // ER_SESSION_WAS_KILLED
    case 3796:  // ER_GRP_HOLD_WAIT_TIMEOUT
    case 3797:  // ER_GRP_HOLD_MEMBER_STATUS_ERROR
    case 4031:  // ER_CLIENT_INTERACTION_TIMEOUT
      return ErrorKind::kConnectionLost;

    case 1036:  // ER_OPEN_AS_READONLY
    case 1290:  // ER_OPTION_PREVENTS_STATEMENT: --read-only, --super-read-only
    case 1792:  // ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION
    case 1836:  // ER_READ_ONLY_MODE
    case 1874:  // ER_INNODB_READ_ONLY
    case 3098:  // ER_BEFORE_DML_VALIDATION_ERROR: this member must not write
      return ErrorKind::kReadOnly;

    case 1048:  // ER_BAD_NULL_ERROR
    case 1118:  // ER_TOO_BIG_ROWSIZE
    case 1153:  // ER_NET_PACKET_TOO_LARGE
    case 1162:  // ER_TOO_LONG_STRING
    case 1264:  // ER_WARN_DATA_OUT_OF_RANGE
    case 1265:  // WARN_DATA_TRUNCATED
    case 1292:  // ER_TRUNCATED_WRONG_VALUE
    case 1301:  // ER_WARN_ALLOWED_PACKET_OVERFLOWED
    case 1366:  // ER_TRUNCATED_WRONG_VALUE_FOR_FIELD
    case 1367:  // ER_ILLEGAL_VALUE_FOR_TYPE
    case 1406:  // ER_DATA_TOO_LONG
    case 1411:  // ER_WRONG_VALUE_FOR_TYPE
    case 1690:  // ER_DATA_OUT_OF_RANGE
    case 3819:  // ER_CHECK_CONSTRAINT_VIOLATED (MySQL)
    case 4025:  // ER_CONSTRAINT_FAILED (MariaDB)
      return ErrorKind::kData;

    case 1044:  // ER_DBACCESS_DENIED_ERROR
    case 1045:  // ER_ACCESS_DENIED_ERROR
    case 1046:  // ER_NO_DB_ERROR
    case 1049:  // ER_BAD_DB_ERROR
    case 1130:  // ER_HOST_NOT_PRIVILEGED
    case 1142:  // ER_TABLEACCESS_DENIED_ERROR
    case 1143:  // ER_COLUMNACCESS_DENIED_ERROR
    case 1146:  // ER_NO_SUCH_TABLE
    case 1193:  // ER_UNKNOWN_SYSTEM_VARIABLE
    case 1227:  // ER_SPECIFIC_ACCESS_DENIED_ERROR
    case 1231:  // ER_WRONG_VALUE_FOR_VAR
    case 1251:  // ER_NOT_SUPPORTED_AUTH_MODE
    case 1370:  // ER_PROCACCESS_DENIED_ERROR
    case 1524:  // ER_PLUGIN_IS_NOT_LOADED
    case 1665:  // ER_BINLOG_STMT_MODE_AND_ROW_ENGINE
    case 1698:  // ER_ACCESS_DENIED_NO_PASSWORD_ERROR
    case 1820:  // ER_MUST_CHANGE_PASSWORD
    case 1862:  // ER_MUST_CHANGE_PASSWORD_LOGIN
    case 3118:  // ER_ACCOUNT_HAS_BEEN_LOCKED
    case 3159:  // ER_SECURE_TRANSPORT_REQUIRED (MySQL)
    case 4151:  // ER_ACCOUNT_HAS_BEEN_LOCKED (MariaDB)
      return ErrorKind::kRefused;
    default:
      return ErrorKind::kBug;
  }
}

// Server texts that name settings, users and columns, but never a value of a row or a piece of SQL.
bool TextIsHarmless(const NativeError& error, ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kRetry:
    case ErrorKind::kConnectionLost:
    case ErrorKind::kReadOnly:
    case ErrorKind::kRefused:
      return true;
    case ErrorKind::kData:
      return error.code == 1406 || error.code == 1264 || error.code == 1048 || error.code == 1153;
    case ErrorKind::kDuplicate:  // quotes the key
    case ErrorKind::kBug:        // quotes the statement
      return IsClientError(error.code);
  }
  return false;
}

// Errors of COMMIT after which the transaction is known not to have been, nor to become, durable.
// On any other one the server may have been past the point of no return: killed while it waited for
// a replica, for example.
bool CommitSurelyFailed(const NativeError& error) {
  switch (error.code) {
    case 1047:  // refused before it was looked at
    case 1205:
    case 1213:
    case 1290:
    case 1792:
    case 1836:
    case 3098:
    case 3100:
    case 3101:
      return true;
    default:
      return false;
  }
}

absl::StatusCode CodeFor(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kDuplicate:
      return absl::StatusCode::kAlreadyExists;
    case ErrorKind::kRetry:
      return absl::StatusCode::kAborted;
    case ErrorKind::kConnectionLost:
    case ErrorKind::kReadOnly:
      return absl::StatusCode::kUnavailable;
    case ErrorKind::kData:
      return absl::StatusCode::kInvalidArgument;
    case ErrorKind::kRefused:
      return absl::StatusCode::kFailedPrecondition;
    case ErrorKind::kBug:
      return absl::StatusCode::kInternal;
  }
  return absl::StatusCode::kInternal;
}

absl::string_view PhaseName(Phase phase) {
  switch (phase) {
    case Phase::kConnect:
      return "connecting to ";
    case Phase::kStatement:
      return "database ";
    case Phase::kCommit:
      return "COMMIT on ";
  }
  return "";
}

}  // namespace

ErrorKind KindOf(const NativeError& error) {
  if (IsClientError(error.code)) {
    switch (error.code) {
      case 2014:  // CR_COMMANDS_OUT_OF_SYNC
      case 2020:  // CR_NET_PACKET_TOO_LARGE
        return error.code == 2020 ? ErrorKind::kData : ErrorKind::kBug;
      case 2059:  // CR_AUTH_PLUGIN_CANNOT_LOAD
      case 2061:  // CR_AUTH_PLUGIN_ERR
        return ErrorKind::kRefused;
      default:
        return ErrorKind::kConnectionLost;
    }
  }
  const ErrorKind kind = KindOfServerError(error);
  if (kind != ErrorKind::kBug) return kind;
  // Numbers that this list does not know, by their class.
  if (absl::StartsWith(error.sqlstate, "08")) return ErrorKind::kConnectionLost;
  if (absl::StartsWith(error.sqlstate, "22")) return ErrorKind::kData;
  if (absl::StartsWith(error.sqlstate, "23")) return ErrorKind::kData;
  if (absl::StartsWith(error.sqlstate, "40")) return ErrorKind::kRetry;
  return ErrorKind::kBug;
}

bool ConnectionSurvives(const NativeError& error, Phase phase) {
  if (IsClientError(error.code)) return false;
  if (phase == Phase::kCommit && !CommitSurelyFailed(error)) return false;
  switch (KindOf(error)) {
    case ErrorKind::kConnectionLost:
    case ErrorKind::kReadOnly:
      return false;
    case ErrorKind::kDuplicate:
    case ErrorKind::kRetry:
    case ErrorKind::kData:
    case ErrorKind::kRefused:
    case ErrorKind::kBug:
      // The server closes a connection that sent too large a packet.
      return error.code != 1153 && error.code != 0;
  }
  return false;
}

absl::Status StatusOf(const NativeError& error, Phase phase, absl::string_view host) {
  const ErrorKind kind = KindOf(error);
  absl::StatusCode code = CodeFor(kind);
  if (phase == Phase::kCommit && !CommitSurelyFailed(error)) {
    code = absl::StatusCode::kUnknown;
  }
  std::string message =
      absl::StrCat(PhaseName(phase), host, ": error ", error.code, " (", error.sqlstate, ")");
  if (TextIsHarmless(error, kind)) {
    absl::StrAppend(&message, ": ", error.text);
  }
  return absl::Status(code, message);
}

}  // namespace once::store::mysql
