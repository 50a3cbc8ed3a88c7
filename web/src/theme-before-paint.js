// Applies the stored theme before the first paint. If storage is unavailable, the system's preference applies.
try {
  var chosen = localStorage.getItem('playmeter.theme')
  if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen
} catch (_) {}
