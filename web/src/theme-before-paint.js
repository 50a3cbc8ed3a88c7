// Sets the remembered theme before anything is drawn. Storage may be forbidden: then the system's
// choice holds.
try {
  var chosen = localStorage.getItem('playmeter.theme')
  if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen
} catch (_) {}
