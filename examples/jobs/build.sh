#!/bin/sh
# Compile the example jobs into one jar.
#
#   examples/jobs/build.sh [JAR]        default: target/exactly-once-counter.jar
#
# Compiles against $FLINK_HOME if that is set, or else against the Flink that `kubectl flink sandbox flink-image`
# has built, or else against the jars from Maven Central (30 MB, kept in the cache folder). The jar runs
# on Flink 1.17 to 2.x.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
jar=${1:-$here/../../target/exactly-once-counter.jar}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/kubectl-flink
version=1.20.1

fail() { echo "build.sh: $*" >&2; exit 1; }
command -v javac >/dev/null || fail "needs a JDK (javac and jar), such as Debian's default-jdk-headless"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ -n "${FLINK_HOME:-}" ]; then
    lib=$FLINK_HOME/lib
    [ -d "$lib" ] || fail "FLINK_HOME is set, but \`$lib\` is not a folder"
else
    lib=
    for found in "$cache"/flink/1.20.*/distribution/lib "$cache/flink-jars-$version"; do
        [ ! -d "$found" ] || lib=$found
    done
fi
if [ -z "$lib" ]; then
    command -v mvn >/dev/null || fail "needs mvn (such as Debian's maven), or FLINK_HOME with a Flink distribution"
    cat > "$work/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>local</groupId><artifactId>flink-jars</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.flink</groupId><artifactId>flink-streaming-java</artifactId><version>$version</version></dependency>
    <dependency><groupId>org.apache.flink</groupId><artifactId>flink-connector-files</artifactId><version>$version</version></dependency>
  </dependencies>
</project>
POM
    mvn -q -B -f "$work/pom.xml" \
        org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies -DoutputDirectory="$work/lib" >&2
    mkdir -p "$cache"
    lib=$cache/flink-jars-$version
    mv "$work/lib" "$lib"
fi

mkdir "$work/classes"
find "$here/src" -name '*.java' > "$work/sources"
javac --release 11 -Xlint:all,-processing,-classfile -cp "$lib/*" -d "$work/classes" "@$work/sources"
mkdir -p "$(dirname "$jar")"
jar --create --file "$jar" --main-class io.github.kubectlflink.examples.ExactlyOnceCounter -C "$work/classes" .
echo "$jar"
