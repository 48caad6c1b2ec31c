#!/bin/sh
# Compile the example jobs into one jar.
#
#   examples/jobs/build.sh [JAR]        default: target/exactly-once-counter.jar
#
# Compiles against $FLINK_HOME/lib where that is set, else against the same jars from Maven Central
# (about 30 MB, kept in ${XDG_CACHE_HOME:-~/.cache}/kubectl-flink). Runs on Flink 1.17 to 2.x.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
jar=${1:-$here/../../target/exactly-once-counter.jar}
version=1.20.1

if [ -n "${FLINK_HOME:-}" ]; then
    lib=$FLINK_HOME/lib
    [ -d "$lib" ] || { echo "build.sh: FLINK_HOME is set and \`$lib\` is no folder" >&2; exit 1; }
else
    lib=${XDG_CACHE_HOME:-$HOME/.cache}/kubectl-flink/flink-jars-$version
    if [ ! -d "$lib" ]; then
        command -v mvn >/dev/null || { echo "build.sh: needs mvn, or FLINK_HOME with a Flink distribution" >&2; exit 1; }
        part=$(mktemp -d)
        trap 'rm -rf "$part"' EXIT
        cat > "$part/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>local</groupId><artifactId>flink-jars</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.flink</groupId><artifactId>flink-streaming-java</artifactId><version>$version</version></dependency>
    <dependency><groupId>org.apache.flink</groupId><artifactId>flink-connector-files</artifactId><version>$version</version></dependency>
  </dependencies>
</project>
POM
        mvn -q -B -f "$part/pom.xml" \
            org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies -DoutputDirectory="$part/lib"
        mkdir -p "$(dirname "$lib")"
        mv "$part/lib" "$lib"
    fi
fi

classes=$(mktemp -d)
trap 'rm -rf "$classes" ${part:+"$part"}' EXIT
find "$here/src" -name '*.java' > "$classes.files"
javac --release 11 -Xlint:all,-processing,-classfile -cp "$lib/*" -d "$classes" "@$classes.files"
rm -f "$classes.files"
mkdir -p "$(dirname "$jar")"
# `jar` belongs to the JDK, as javac does.
jar --create --file "$jar" --main-class io.github.kubectlflink.examples.ExactlyOnceCounter -C "$classes" .
echo "$jar"
