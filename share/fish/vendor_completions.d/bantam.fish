# Written by scripts/generate.py.
function __bantam_sessions
    set -l home $BANTAM_HOME
    test -n "$home"; or set home ~/.bantam
    for id in $home/sessions/*.json
        string replace -r '.*/(.*)\.json$' '$1' -- $id
    end
end
complete -c bantam -s p -x -d 'run the prompt TEXT, then what is piped in'
complete -c bantam -s o -xka 'endpoint= model= temperature= api_key= stream=true stream=false color=auto color=always color=never timeout= shell_timeout= max_al_iterations= context_window= bantam_tools_dir= dialect=auto dialect=native dialect=dollar dialect=blocks sandbox=off sandbox=on sandbox=net approve=auto approve=risky approve=ask sanitize=text sanitize=strict tool_output_limit= compact_at= budget_tokens= cache_proof=off cache_proof=warn cache_proof=strict min_cacheable_tokens= tools=shell_exec tools=write_file tools=edit_file tools=read_file edit_mode=emacs edit_mode=vi' -d 'set a configuration key for this run'
complete -c bantam -s c -l continue -d 'go on from this project\'s session'
complete -c bantam -s r -l resume -xka '(__bantam_sessions)' -d 'go on from the session ID'
complete -c bantam -l replay -xka '(__bantam_sessions)' -d 'run the session ID again; show what differs'
complete -c bantam -l undo -d 'put back the files that the last turn wrote'
complete -c bantam -l json -d 'write every event as one JSON object a line'
complete -c bantam -l no-session -d 'save nothing'
complete -c bantam -l trust -d 'accept the endpoint of this folder\'s configuration'
complete -c bantam -l demo -d 'show the whole job without a network or a key'
complete -c bantam -l version -d 'show the version'
complete -c bantam -s h -l help -d 'show all options'
