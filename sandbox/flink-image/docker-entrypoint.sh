#!/usr/bin/env bash
# First process of a Flink container: prepares the configuration, gives up root
# for the user `flink`, and becomes what it is asked for:
#
#   jobmanager | standalone-job | taskmanager [ARGS]   the part of that name, in the foreground
#   help                                               this list
#   anything else                                      that command, as it is
#
# FLINK_PROPERTIES          lines of `key: value`, set on top of the configuration
# ENABLE_BUILT_IN_PLUGINS   jars of /opt/flink/opt, separated by `;`, used as plugins
# DISABLE_JEMALLOC=true     leaves the C library's own allocator in place
set -euo pipefail

FLINK_HOME="${FLINK_HOME:-/opt/flink}"

as_flink=()
if [ "$(id -u)" -eq 0 ]; then
    if command -v gosu >/dev/null; then
        as_flink=(gosu flink)
    else
        as_flink=(setpriv --reuid flink --regid flink --init-groups)
    fi
fi

use_plugins() {
    local jar name
    local -a jars
    IFS=';' read -r -a jars <<<"${ENABLE_BUILT_IN_PLUGINS:-}"
    for jar in "${jars[@]}"; do
        [ -n "$jar" ] || continue
        if [ ! -f "$FLINK_HOME/opt/$jar" ]; then
            echo "ENABLE_BUILT_IN_PLUGINS: no jar \`$jar\` in $FLINK_HOME/opt" >&2
            exit 1
        fi
        name="${jar%.jar}"
        mkdir -p "$FLINK_HOME/plugins/$name"
        ln -fs "$FLINK_HOME/opt/$jar" "$FLINK_HOME/plugins/$name/"
    done
}

# Writes the properties behind the file's own lines, without those they replace.
add_properties() {
    [ -n "${FLINK_PROPERTIES:-}" ] || return 0
    local file="$FLINK_HOME/conf/config.yaml"
    [ -f "$file" ] || file="$FLINK_HOME/conf/flink-conf.yaml"
    if [ -n "${FLINK_CONF_DIR:-}" ]; then
        file="$FLINK_CONF_DIR/$(basename "$file")"
    fi
    if [ ! -w "$file" ]; then
        echo "FLINK_PROPERTIES: cannot write $file, it stays as it is" >&2
        return 0
    fi
    local properties line key kept
    properties="$(envsubst <<<"$FLINK_PROPERTIES")"
    kept="$(cat "$file")"
    while IFS= read -r line; do
        key="${line%%:*}"
        [ -n "$key" ] && [ "$key" != "$line" ] || continue
        kept="$(awk -v key="$key:" 'index($0, key) != 1' <<<"$kept")"
    done <<<"$properties"
    printf '%s\n%s\n' "$kept" "$properties" >"$file"
}

if [ "${DISABLE_JEMALLOC:-false}" != true ]; then
    for library in "/usr/lib/$(uname -m)-linux-gnu/libjemalloc.so" "/usr/lib/$(uname -m)-linux-gnu/libjemalloc.so.2"; do
        if [ -f "$library" ]; then
            export LD_PRELOAD="${LD_PRELOAD:+$LD_PRELOAD }$library"
            break
        fi
    done
fi

use_plugins

case "${1:-help}" in
help)
    sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"
    ;;
jobmanager)
    shift
    add_properties
    exec "${as_flink[@]}" "$FLINK_HOME/bin/jobmanager.sh" start-foreground "$@"
    ;;
standalone-job)
    shift
    add_properties
    exec "${as_flink[@]}" "$FLINK_HOME/bin/standalone-job.sh" start-foreground "$@"
    ;;
taskmanager)
    shift
    add_properties
    exec "${as_flink[@]}" "$FLINK_HOME/bin/taskmanager.sh" start-foreground "$@"
    ;;
*)
    add_properties
    exec "${as_flink[@]}" "$@"
    ;;
esac
