
set edit:completion:arg-completer[kubectl-flink] = { |@words|
    var index = (count $words)
    set index = (- $index 1)

    put (env _CLAP_IFS="\n" _CLAP_COMPLETE_INDEX=(to-string $index) KUBECTL_FLINK_COMPLETE="elvish" kubectl-flink -- $@words) | to-lines
}

