// The page comes back by itself.
pecker.watch(() => location.search.slice(1), () => location.reload());
