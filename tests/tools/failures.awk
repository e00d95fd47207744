# The last lines of what each failed test printed, of ctest's LastTest.log.
/^[0-9]+\/[0-9]+ Testing: / { name = $3; lines = 0 }
/^<end of output>$/ { ended = lines }
/^Test Failed/ {
  print "== " name
  for (i = ended > 25 ? ended - 25 : 0; i < ended; ++i) print line[i]
}
{ line[lines++] = $0 }
