#!/bin/sh
# Run the KDC of a Kerberos realm, EXAMPLE.COM, with its files in FOLDER.
#
#   tests/kdc.sh FOLDER ADDRESS:PORT PRINCIPAL…
#
# FOLDER gets krb5.conf, kdc.log, and a keytab NAME.keytab for each principal NAME or NAME/HOST. It runs until it is killed.
#
# Needs MIT's KDC: tests/tools.sh kerberos
set -eu
PATH=$PATH:/usr/sbin
folder=$1
address=$2
shift 2

cat >"$folder/krb5.conf" <<END
[libdefaults]
    default_realm = EXAMPLE.COM
    dns_lookup_kdc = false
    dns_lookup_realm = false
    udp_preference_limit = 1
[realms]
    EXAMPLE.COM = {
        kdc = $address
    }
END
mkdir "$folder/kdc"
cat >"$folder/kdc/kdc.conf" <<END
[kdcdefaults]
    kdc_listen = $address
    kdc_tcp_listen = $address
[realms]
    EXAMPLE.COM = {
        database_name = $folder/kdc/principal
        key_stash_file = $folder/kdc/stash
    }
[logging]
    kdc = FILE:$folder/kdc.log
END
export KRB5_CONFIG="$folder/krb5.conf" KRB5_KDC_PROFILE="$folder/kdc/kdc.conf"
kdb5_util create -s -P "$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')"
for principal; do
    kadmin.local addprinc -randkey "$principal"
    kadmin.local ktadd -norandkey -k "$folder/${principal%%/*}.keytab" "$principal"
done
exec krb5kdc -n
