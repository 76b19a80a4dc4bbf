#!/bin/sh
# The project's tests. Each line compares what greet.sh prints with what it should.
fail=0
check() {
	if [ "$1" = "$2" ]; then
		echo "ok    $2"
	else
		echo "FAIL  got \"$1\", want \"$2\""
		fail=1
	fi
}
check "$(sh greet.sh Ada)" "Hello, Ada!"
check "$(sh greet.sh 'Ada Lovelace')" "Hello, Ada Lovelace!"
exit $fail
