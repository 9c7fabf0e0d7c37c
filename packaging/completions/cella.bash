# bash completion for cella

_cella() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command='' words='' i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    if [[ ${COMP_WORDS[i]} == -- ]]; then  # the rest are arguments of the program
      compopt -o default
      return
    fi
    if [[ -z $command && ${COMP_WORDS[i]} != -* ]]; then command=${COMP_WORDS[i]}; fi
  done

  case $command in
    '') words='run repl serve session token env workflows doctor bench kernels version --help --version' ;;
    doctor) words='--json --help' ;;
    kernels) words='--python --venv --json --help' ;;
    bench) words='--json --svg --runs --python --image --only --live --help' ;;
    token)
      if [[ $prev == --file || $prev == --config ]]; then
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
      fi
      words='new ls rm --file --config --help'
      ;;
    serve)
      case $prev in
        --config | --token-file | --tls-certificate | --tls-key | --state-dir)
          compopt -o filenames
          mapfile -t COMPREPLY < <(compgen -f -- "$cur")
          return
          ;;
        --log-level) words='error warning info debug' ;;
      esac
      words=${words:-'--listen --config --state-dir --token-file --tls-certificate --tls-key --log-level --exit-with --token-fd --no-auth --insecure-http
        --check-config --help'}
      ;;
    session) words='new ls show run runs rm files get put cancel --url --code --lang --timeout --json --help' ;;
    workflows) words='ls show approve --storage --hash --json --help' ;;
    env) words='create ls show rm gc --python --with --requirements --preload --replace --refresh --lock --unused --json --help' ;;
    version) words='--help' ;;
    run | repl)
      case $prev in
        --lang) words='bash c cpp go java javascript lua perl php powershell python r ruby rust sh typescript' ;;
        --executor) words='sandbox local container subprocess inprocess' ;;
        --pull) words='missing never' ;;
        --mode) words='session command' ;;
        --fresh) words='session run' ;;
        --network) words='none host bridge' ;;
        --checkpoint) words='auto always off' ;;
        --value-of) words='last_expr last_expr_or_assign' ;;
        --workdir | --storage | --out | --venv | --rootfs | --images)
          compopt -o filenames
          mapfile -t COMPREPLY < <(compgen -d -- "$cur")
          return
          ;;
        --file | --mount | --python | --requirements | --config)
          compopt -o filenames
          mapfile -t COMPREPLY < <(compgen -f -- "$cur")
          return
          ;;
        --pass-env)
          mapfile -t COMPREPLY < <(compgen -e -- "$cur")
          return
          ;;
        --env)
          compopt -o nospace
          mapfile -t COMPREPLY < <(compgen -e -S = -- "$cur")
          return
          ;;
        -c | --timeout | --cpu-time | --memory | --cpus | --pids | --disk | --open-files | --output-limit | \
          --code | --kernel | --with | --environment | --preload | --idle-timeout | --max-lifetime | --image | --container-name | --runtime | --engine | \
          --user | --add-host | --gpus | --cap-add | --init-command) return ;;
      esac
      if [[ -z $words && $cur != -* && $command == run ]]; then
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
      fi
      local own='-c --code --file --out --events --summary'
      if [[ $command == repl ]]; then
        own='--preload --value-of --checkpoint --idle-timeout --max-lifetime --images --no-history'
      fi
      words=${words:-"--lang --executor --timeout --cpu-time --memory --cpus --pids --disk --open-files --output-limit
        --network --env --pass-env --inherit-env --mount --workdir --storage --venv --python --kernel --jail --system-packages --config --rootfs
        --with --requirements --environment --refresh --image --pull --mode --fresh --container-name --runtime --engine
        --user --add-host --gpus --cap-add --init-command --no-auto-remove --no-stop-container
        --best-effort --json --help $own"}
      ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}
complete -F _cella cella
