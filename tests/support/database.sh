#!/usr/bin/env bash
# shellcheck disable=SC2154  # the engine script sets $engine
# What tests/support/mariadb and tests/support/mysql have in common: a private database server for tests,
# on a loopback port, in a directory that the caller owns. Sourced by them, not run.
#
# The engine script defines, before it calls `database_main "$@"`:
#   engine                        name, "mariadb" or "mysql"
#   engine_available              exit status; prints one line with the version or the reason why not
#   engine_initialise DATADIR     makes an empty data directory
#   engine_settings               prints my.cnf lines of its own
#   engine_server                 sets the array server_command to what is run before --defaults-file
#   engine_certificates           prints my.cnf lines where no TLS was asked for
#   engine_prepare                gets what engine_available misses, where it can; prints and exits like that
#
# Every server keeps its commits (full durability), so that a test may kill it and trust what it finds.

database_usage() {
  cat <<USAGE
usage: $0 available                              exit status 0, or 1 and the reason
       $0 prepare                                like available, but first gets what is missing, where it can
       $0 start DIR [--tls[=required]] [--set NAME=VALUE]...
       $0 stop DIR                               shuts down; what DIR holds stays
       $0 kill DIR                               SIGKILL, for crash tests; start again on the same data and port
       $0 run DIR [options as for start] -- COMMAND [ARG]...

start makes a data directory in DIR (or takes the one that is there, with its port, password and settings),
waits until the server answers, and prints DIR/env: lines KEY=VALUE that name it to a test.
In DIR: env, password, my.cnf (server), client.cnf and admin.cnf (for a command line client), server.log, server.pid;
with --tls also ca.pem, and stranger-ca.pem which did not sign the server's certificate.
run starts, runs COMMAND with those lines in its environment, stops, and exits with COMMAND's status.
Servers in different directories do not disturb each other. Nothing outside DIR is touched.
USAGE
}

database_fail() {
  echo "${0##*/}: $*" >&2
  exit 1
}

# Seconds a server may take to answer, and to end. Generous: a loaded machine is not a failed test.
readonly database_start_seconds=60 database_stop_seconds=60

# Prints the id of DIR's server; status 1 where none runs. The id alone proves nothing, since the kernel gives it
# to someone else after a crash, so the command line has to name DIR too.
database_pid() {
  local dir=$1 pid command=
  [[ -s $dir/server.pid ]] || return 1
  pid=$(<"$dir/server.pid")
  # The braces keep the shell's own message quiet where the process ended just now.
  { command=$(tr '\0' ' ' <"/proc/$pid/cmdline"); } 2>/dev/null || return 1
  [[ $command == *"--defaults-file=$dir/my.cnf "* ]] || return 1
  echo "$pid"
}

# Waits until a process is gone; status 1 after the given number of seconds. A zombie without further threads has closed
# its files and ports, which is what counts; whoever is its parent may collect it late.
database_wait_gone() {
  local pid=$1 deadline=$((SECONDS + $2)) state
  local -a threads
  while { state=$(<"/proc/$pid/stat"); } 2>/dev/null; do
    state=${state##*) }
    threads=("/proc/$pid/task/"*)
    if [[ ${state%% *} == Z ]] && ((${#threads[@]} == 1)); then return 0; fi
    ((SECONDS < deadline)) || return 1
    sleep 0.03
  done
}

database_stop() {
  local dir=$1 pid
  if pid=$(database_pid "$dir"); then
    kill -TERM "$pid" 2>/dev/null || true
    # A server that a test had stopped with SIGSTOP would not see the other signal before.
    kill -CONT "$pid" 2>/dev/null || true
    if ! database_wait_gone "$pid" "$database_stop_seconds"; then
      echo "${0##*/}: process $pid ignored SIGTERM for ${database_stop_seconds} s and is killed" >&2
      database_kill "$dir"
    fi
  fi
  rm -f "$dir/server.pid"
}

database_kill() {
  local dir=$1 pid socket
  if pid=$(database_pid "$dir"); then
    kill -KILL "$pid" 2>/dev/null || true
    database_wait_gone "$pid" "$database_stop_seconds" || database_fail "process $pid survived SIGKILL"
    # MySQL will not start while the process named in the lock exists, and a new process may have been given that id.
    socket=$(sed -n 's/^socket=//p' "$dir/my.cnf")
    rm -f "$socket" "$socket.lock"
  fi
  rm -f "$dir/server.pid"
}

# A certificate authority of DIR's own, the server's certificate for 127.0.0.1 and localhost, and an authority that
# signed nothing, for the test that expects a refusal.
database_make_certificates() {
  local dir=$1 name
  for name in ca stranger-ca; do
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -noenc -days 30 -subj "/CN=once test $name" \
      -addext keyUsage=critical,keyCertSign,cRLSign -keyout "$dir/$name-key.pem" -out "$dir/$name.pem" 2>/dev/null
  done
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -noenc -subj "/CN=localhost" \
    -keyout "$dir/server-key.pem" -out "$dir/server.csr" 2>/dev/null
  openssl x509 -req -in "$dir/server.csr" -CA "$dir/ca.pem" -CAkey "$dir/ca-key.pem" -CAcreateserial -days 30 \
    -extfile <(echo "subjectAltName=IP:127.0.0.1,DNS:localhost
extendedKeyUsage=serverAuth") -out "$dir/server.pem" 2>/dev/null
  rm -f "$dir/server.csr" "$dir/ca.srl" "$dir/stranger-ca-key.pem"
}

# Everything in DIR but the server itself: data, users, settings.
database_create() {
  local dir=$1 tls=$2 password socket
  password=$(openssl rand -hex 16)
  # The kernel allows 107 bytes for the path of a socket; a deep test directory takes the temp directory instead.
  socket=$dir/server.sock
  if ((${#socket} > 100)); then socket=$(mktemp -u "${TMPDIR:-/tmp}/once-db-XXXXXXXX").sock; fi
  echo "$password" >"$dir/password"

  # Not the common temp directory: a MariaDB server that starts removes the temporary tables of every other one there.
  mkdir -p "$dir/tmp"
  TMPDIR=$dir/tmp engine_initialise "$dir/data" >"$dir/initialise.log" 2>&1 ||
    database_fail "no data directory could be made: $(tail -n 5 "$dir/initialise.log")"

  # `once` has what a server that owns its database needs, and no more: a read-only server must refuse it.
  # `once_admin` is for what a test does to the server (read_only, KILL). No password ever stands on a command line.
  cat >"$dir/users.sql" <<SQL
CREATE USER IF NOT EXISTS 'once'@'%' IDENTIFIED BY '$password';
GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, REFERENCES, INDEX, ALTER, CREATE TEMPORARY TABLES, LOCK TABLES ON *.* TO 'once'@'%';
CREATE USER IF NOT EXISTS 'once_admin'@'%' IDENTIFIED BY '$password';
GRANT ALL PRIVILEGES ON *.* TO 'once_admin'@'%' WITH GRANT OPTION;
ALTER USER 'root'@'localhost' ACCOUNT LOCK;
SQL

  {
    echo "[mysqld]
datadir=$dir/data
tmpdir=$dir/tmp
socket=$socket
pid-file=$dir/data/server.pid
bind-address=127.0.0.1
skip-name-resolve=ON
innodb-flush-log-at-trx-commit=1
sync-binlog=1
innodb-buffer-pool-size=64M"
    engine_settings
    if [[ -n $tls ]]; then
      database_make_certificates "$dir"
      echo "ssl-ca=$dir/ca.pem
ssl-cert=$dir/server.pem
ssl-key=$dir/server-key.pem"
      if [[ $tls == required ]]; then echo "require-secure-transport=ON"; fi
    else
      engine_certificates
    fi
  } >"$dir/my.cnf"
}

# Starts the server with the port in my.cnf. Status 1: the port is taken; any other fault ends the script.
database_launch() {
  local dir=$1 port=$2
  shift 2
  local deadline=$((SECONDS + database_start_seconds)) pid log
  local -a server_command=()
  engine_server
  if [[ -e $dir/server.log ]]; then cat "$dir/server.log" >>"$dir/server.log.old"; fi
  : >"$dir/server.log"
  # A session of its own, so that Ctrl-C in a terminal ends the test and the test ends the server.
  setsid "${server_command[@]}" "--defaults-file=$dir/my.cnf" "--port=$port" "--user=$(id -un)" "$@" \
    </dev/null >>"$dir/server.log" 2>&1 &
  pid=$!
  echo "$pid" >"$dir/server.pid"
  until log=$(<"$dir/server.log") && [[ $log == *"ready for connections"* ]]; do
    if ! kill -0 "$pid" 2>/dev/null; then
      rm -f "$dir/server.pid"
      if grep -qiE 'address already in use|bind on tcp/ip port' "$dir/server.log"; then return 1; fi
      database_fail "the server ended at once: $(tail -n 15 "$dir/server.log")"
    fi
    if ((SECONDS >= deadline)); then
      database_fail "no answer within ${database_start_seconds} s: $(tail -n 15 "$dir/server.log")"
    fi
    sleep 0.03
  done
}

# Prints a port to try. Below the range from which the kernel takes ports for `bind(0)` and for outgoing connections,
# so that nobody is given this one while the server is down between a kill and the next start.
database_random_port() { echo $((20000 + SRANDOM % 10000)); }

# Configuration for the command line client, one file per user.
database_write_clients() {
  local dir=$1 port=$2 user file
  for user in once once_admin; do
    file=$dir/client.cnf
    if [[ $user == once_admin ]]; then file=$dir/admin.cnf; fi
    echo "[client]
host=127.0.0.1
port=$port
protocol=tcp
user=$user
password=$(<"$dir/password")" >"$file"
    # The client takes TLS where it can have it. Where it then gets none (seen with 10.11.19), it hands MySQL the password
    # in the clear and is refused.
    if [[ -e $dir/ca.pem ]]; then echo "ssl-ca=$dir/ca.pem" >>"$file"; else echo skip-ssl >>"$file"; fi
  done
}

# The log's word is the server's; this is the clients': both users exist, and the port is ours.
database_probe() {
  local dir=$1 user
  for user in client admin; do
    mariadb --defaults-file="$dir/$user.cnf" --execute "SELECT 1" || return 1
  done >"$dir/probe.log" 2>&1
}

# Last and whole: a directory with an env file is one whose server has answered.
database_write_env() {
  local dir=$1 port=$2
  {
    echo "ONCE_TEST_MYSQL_ENGINE=$engine
ONCE_TEST_MYSQL_HOST=127.0.0.1
ONCE_TEST_MYSQL_PORT=$port
ONCE_TEST_MYSQL_USER=once
ONCE_TEST_MYSQL_ADMIN_USER=once_admin
ONCE_TEST_MYSQL_PASSWORD_FILE=$dir/password
ONCE_TEST_MYSQL_SOCKET=$(sed -n 's/^socket=//p' "$dir/my.cnf")
ONCE_TEST_MYSQL_PID_FILE=$dir/server.pid
ONCE_TEST_MYSQL_DIR=$dir"
    if [[ -e $dir/ca.pem ]]; then
      echo "ONCE_TEST_MYSQL_CA=$dir/ca.pem
ONCE_TEST_MYSQL_STRANGER_CA=$dir/stranger-ca.pem"
    fi
  } >"$dir/env.new"
  mv "$dir/env.new" "$dir/env"
}

# DIR as an absolute path, made if need be. Odd characters are refused rather than quoted in three file formats.
database_directory() {
  local dir
  [[ -n ${1:-} && $1 != -* ]] || database_fail "which directory? See $0 help"
  mkdir -p "$1"
  dir=$(cd "$1" && pwd -P)
  [[ $dir =~ ^[A-Za-z0-9._/+@:,-]+$ ]] || database_fail "DIR may hold letters, digits and . _ / + @ : , - only: $dir"
  echo "$dir"
}

database_start() {
  local dir=$1 tls="" port tries
  local -a settings=()
  shift
  while (($#)); do
    case $1 in
      --tls) tls=offered ;;
      --tls=required) tls=required ;;
      --set)
        [[ ${2:-} == *=* ]] || database_fail "--set needs NAME=VALUE"
        settings+=("$2")
        shift
        ;;
      *) database_fail "unknown option $1. See $0 help" ;;
    esac
    shift
  done
  if database_pid "$dir" >/dev/null; then database_fail "a server already runs in $dir"; fi

  # No server stays behind when this fails or is interrupted.
  # shellcheck disable=SC2064  # DIR as it is now
  trap "database_kill '$dir'" EXIT
  umask 077
  if [[ -e $dir/env ]]; then
    [[ -z $tls ]] || database_fail "$dir exists; TLS is chosen when it is made"
    printf '%s\n' "${settings[@]}" >>"$dir/my.cnf"
    port=$(sed -n 's/^ONCE_TEST_MYSQL_PORT=//p' "$dir/env")
    database_launch "$dir" "$port" || database_fail "port $port, which this server had, is taken"
  else
    [[ ! -e $dir/data ]] || database_fail "an earlier start in $dir did not finish; remove $dir and start again"
    engine_available >/dev/null || database_fail "$(engine_available || true)"
    database_create "$dir" "$tls"
    printf '%s\n' "${settings[@]}" >>"$dir/my.cnf"
    for ((tries = 10; ; tries--)); do
      port=$(database_random_port)
      if database_launch "$dir" "$port" "--init-file=$dir/users.sql"; then break; fi
      ((tries > 1)) || database_fail "no free port found"
    done
    database_write_clients "$dir" "$port"
  fi
  database_probe "$dir" || database_fail "the server runs, but its users cannot use it: $(<"$dir/probe.log")"
  rm -f "$dir/users.sql"
  database_write_env "$dir" "$port"
  trap - EXIT
  cat "$dir/env"
}

database_run() {
  local dir=$1 status=0 line command
  local -a options=()
  shift
  while (($#)) && [[ $1 != -- ]]; do
    options+=("$1")
    shift
  done
  (($# > 1)) || database_fail "run needs -- COMMAND"
  shift
  # In the background, since the shell would sit out a command in the foreground before it heard of a signal; it passes
  # both on as SIGTERM, as commands in the background ignore SIGINT. No server outlives the run.
  # shellcheck disable=SC2064  # DIR as it is now
  trap "database_stop '$dir'" EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  (database_start "$dir" "${options[@]}") >/dev/null
  while IFS= read -r line; do export "${line?}"; done <"$dir/env"
  "$@" <&0 &
  command=$!
  # shellcheck disable=SC2064  # the command as it is now
  trap "kill -TERM $command 2>/dev/null; wait $command || true; exit 130" INT TERM
  wait "$command" || status=$?
  exit "$status"
}

database_main() {
  local action=${1:-help} dir
  shift || true
  case $action in
    available | prepare) "engine_$action" ;;
    start | stop | kill | run)
      dir=$(database_directory "$@")
      shift
      "database_$action" "$dir" "$@"
      ;;
    help | --help | -h) database_usage ;;
    *) database_fail "unknown action $action. See $0 help" ;;
  esac
}
