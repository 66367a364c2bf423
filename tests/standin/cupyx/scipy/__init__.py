from cupyx.scipy import special as special
